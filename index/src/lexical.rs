//! Which chunks hold these words? BM25 over tantivy; the only file that names it.
//!
//! One document per chunk, in four fields of words: the code, the prose in it (comments, doc strings), the name of
//! the definition, the path. No text is stored, and no positions: a phrase is a matter for the trigram lane, and
//! positions alone would be half of the lane's room. The commit bears the generation of the index as its payload, so that a commit that the
//! manifest does not know of is seen. A damaged file can make tantivy panic; every read is fenced so that the caller
//! gets an error instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustc_hash::FxHashMap;
use tantivy::collector::TopDocs;
use tantivy::query::{Bm25StatisticsProvider, BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term};

use crate::chunk::Chunk;
use crate::hash::number_of;
use crate::inflect::forms;
use crate::prose::{Script, divide};
use crate::tokenize::{Words, words};

const TOKENIZER_NAME: &str = "code";
/// Memory of the writer before it starts a new segment.
const WRITER_BYTES: usize = 64 * 1024 * 1024;
/// What a word counts in each field; see the table in `search.rs` for how these were found.
const CODE_WEIGHT: f32 = 1.0;
const PROSE_WEIGHT: f32 = 1.0;
const NAME_WEIGHT: f32 = 3.0;
const PATH_WEIGHT: f32 = 1.5;
/// What another form of a word counts beside the word itself.
const FORM_WEIGHT: f32 = 0.5;

/// Why the text lane failed. The store can be rebuilt, so one sentence is all that anybody needs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the text lane failed: {0}")]
pub(crate) struct LexicalError(String);

impl From<tantivy::TantivyError> for LexicalError {
    fn from(error: tantivy::TantivyError) -> LexicalError {
        // Some of tantivy's errors carry the whole content of the damaged file.
        LexicalError(error.to_string().lines().next().unwrap_or_default().chars().take(200).collect())
    }
}

/// A word to look for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    /// As [`words`] gives it.
    pub text: String,
    /// Against the other words of the question.
    pub weight: f32,
    /// Whether it is a word of prose, whose other forms count too.
    pub inflected: bool,
}

#[derive(Clone, Copy)]
struct Fields {
    id: Field,
    /// Names the file, to delete by.
    file: Field,
    /// Every directory above the file, to filter by.
    within: Field,
    path: Field,
    name: Field,
    code: Field,
    prose: Field,
}

/// The text lane as it was when it was opened.
pub(crate) struct Lexical {
    index: Index,
    fields: Fields,
    reader: IndexReader,
    generation: Option<u64>,
}

impl Lexical {
    /// Makes an empty one in a new directory.
    pub(crate) fn create(directory: &Path) -> Result<Lexical, LexicalError> {
        std::fs::create_dir_all(directory).map_err(|error| LexicalError(error.to_string()))?;
        Lexical::over(fenced(|| Ok(Index::create_in_dir(directory, schema().0)?))?)
    }

    /// Opens one that [`Lexical::create`] made.
    pub(crate) fn open(directory: &Path) -> Result<Lexical, LexicalError> {
        let index = fenced(|| Ok(Index::open_in_dir(directory)?))?;
        if index.schema() != schema().0 {
            return Err(LexicalError("its fields are those of another version".to_owned()));
        }
        Lexical::over(index)
    }

    fn over(index: Index) -> Result<Lexical, LexicalError> {
        index.tokenizers().register(TOKENIZER_NAME, CodeTokenizer);
        fenced(|| {
            let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
            let generation = index.load_metas()?.payload.and_then(|payload| payload.parse().ok());
            Ok(Lexical { fields: schema().1, reader, generation, index: index.clone() })
        })
    }

    /// The generation of the last commit; nothing where there was none.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Reads every file of the lane and compares checksums; the names of the damaged ones.
    pub(crate) fn damaged_files(&self) -> Result<Vec<String>, LexicalError> {
        fenced(|| {
            let mut damaged: Vec<String> =
                self.index.validate_checksum()?.iter().map(|path| path.display().to_string()).collect();
            damaged.sort();
            Ok(damaged)
        })
    }

    /// Chunk ids with their BM25 scores, best first. A chunk needs one of the words.
    ///
    /// A word is as rare in every field as it is in the one where it is commonest: a common word does not become
    /// telling by standing in a path.
    pub(crate) fn search(
        &self,
        wanted: &[Wanted],
        within: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(u64, f32)>, LexicalError> {
        fenced(|| {
            let searcher = self.reader.searcher();
            let mut asked =
                Asked { fields: self.fields, searcher: &searcher, bearers: FxHashMap::default(), any: vec![] };
            for word in wanted {
                asked.word(word)?;
            }
            let Asked { any, bearers, .. } = asked;
            let mut query: Box<dyn Query> = Box::new(BooleanQuery::new(any));
            if let Some(within) = within {
                let filter = BoostQuery::new(self.inside(within), 0.0);
                query = Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, Box::new(filter))]));
            }
            let rarity = Rarity { searcher: &searcher, bearers };
            let collector = TopDocs::with_limit(limit.max(1)).order_by_score();
            let top = searcher.search_with_statistics_provider(&query, &collector, &rarity)?;
            let mut found = Vec::with_capacity(top.len());
            for (score, address) in top {
                let ids = searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?;
                found.extend(ids.first(address.doc_id).map(|id| (id, score)));
            }
            Ok(found)
        })
    }

    /// In how many chunks each of the words stands, and how many chunks there are.
    pub(crate) fn rarity(&self, words: &[&str]) -> Result<(Vec<u64>, u64), LexicalError> {
        fenced(|| {
            let searcher = self.reader.searcher();
            let bearers = words.iter().map(|word| bearers(&searcher, &self.fields, word));
            Ok((bearers.collect::<tantivy::Result<_>>()?, searcher.num_docs()))
        })
    }

    /// The chunks of one file or directory.
    fn inside(&self, within: &str) -> Box<dyn Query> {
        let file = Term::from_field_u64(self.fields.file, file_key(within));
        let directory = Term::from_field_text(self.fields.within, within);
        let any = [file, directory].map(|term| -> (Occur, Box<dyn Query>) {
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        });
        Box::new(BooleanQuery::new(any.into()))
    }

    /// Starts to write. Nothing is seen by anybody before [`LexicalWriter::commit`].
    pub(crate) fn writer(&self) -> Result<LexicalWriter, LexicalError> {
        let writer = fenced(|| Ok(self.index.writer_with_num_threads(1, WRITER_BYTES)?))?;
        Ok(LexicalWriter { writer, fields: self.fields })
    }

    /// The ids of all live documents, with the words that they are found by.
    #[cfg(test)]
    pub(crate) fn everything(&self) -> std::collections::BTreeMap<u64, String> {
        use tantivy::DocSet;
        let mut all = std::collections::BTreeMap::new();
        let searcher = self.reader.searcher();
        let Fields { path, name, code, prose, .. } = self.fields;
        for segment in searcher.segment_readers() {
            let ids = segment.fast_fields().u64("id").expect("has ids");
            for doc in segment.doc_ids_alive() {
                all.insert(ids.first(doc).expect("has an id"), String::new());
            }
            for field in [path, name, code, prose] {
                let inverted = segment.inverted_index(field).expect("has the field");
                let mut terms = inverted.terms().stream().expect("can be listed");
                while terms.advance() {
                    let postings = inverted.read_postings_from_terminfo(terms.value(), IndexRecordOption::WithFreqs);
                    let mut postings = postings.expect("can be read");
                    while postings.doc() != tantivy::TERMINATED {
                        let id = ids.first(postings.doc()).expect("has an id");
                        if let Some(words) = all.get_mut(&id) {
                            words.push_str(&String::from_utf8_lossy(terms.key()));
                            words.push(' ');
                        }
                        postings.advance();
                    }
                }
            }
        }
        all
    }
}

/// A query in the making.
struct Asked<'a> {
    fields: Fields,
    searcher: &'a Searcher,
    /// By the bytes of the term.
    bearers: FxHashMap<Term, u64>,
    any: Vec<(Occur, Box<dyn Query>)>,
}

impl Asked<'_> {
    fn word(&mut self, word: &Wanted) -> tantivy::Result<()> {
        self.form(&word.text, word.weight)?;
        if word.inflected {
            for form in forms(&word.text) {
                self.form(&form, word.weight * FORM_WEIGHT)?;
            }
        }
        Ok(())
    }

    /// Asks every field for one word as it is written; nothing where no chunk has it.
    fn form(&mut self, text: &str, weight: f32) -> tantivy::Result<()> {
        let Fields { path, name, code, prose, .. } = self.fields;
        let weights = [(code, CODE_WEIGHT), (prose, PROSE_WEIGHT), (name, NAME_WEIGHT), (path, PATH_WEIGHT)];
        let bearers = bearers(self.searcher, &self.fields, text)?;
        if bearers == 0 {
            return Ok(());
        }
        for (field, boost) in weights {
            let term = Term::from_field_text(field, text);
            self.bearers.insert(term.clone(), bearers);
            let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
            self.any.push((Occur::Should, Box::new(BoostQuery::new(Box::new(query), boost * weight))));
        }
        Ok(())
    }
}

/// In how many chunks a word stands, in the field where it is commonest.
fn bearers(searcher: &Searcher, fields: &Fields, text: &str) -> tantivy::Result<u64> {
    let mut most = 0;
    for field in [fields.code, fields.prose, fields.name, fields.path] {
        most = most.max(searcher.doc_freq(&Term::from_field_text(field, text))?);
    }
    Ok(most)
}

/// Tells BM25 how rare a word is over all fields.
struct Rarity<'a> {
    searcher: &'a Searcher,
    bearers: FxHashMap<Term, u64>,
}

impl Bm25StatisticsProvider for Rarity<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.searcher.total_num_tokens(field)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.searcher.total_num_docs()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.bearers.get(term).map_or_else(|| self.searcher.doc_freq(term), |bearers| Ok(*bearers))
    }
}

fn file_key(path: &str) -> u64 {
    number_of(&[path.as_bytes()])
}

/// Changes that become visible together.
pub(crate) struct LexicalWriter {
    writer: IndexWriter,
    fields: Fields,
}

impl LexicalWriter {
    /// Drops all chunks of a file.
    pub(crate) fn remove(&self, path: &str) {
        self.writer.delete_term(Term::from_field_u64(self.fields.file, file_key(path)));
    }

    /// Adds one chunk of a file.
    pub(crate) fn add(&self, path: &str, chunk: &Chunk) -> Result<(), LexicalError> {
        let mut document = TantivyDocument::new();
        document.add_u64(self.fields.id, chunk.record.id);
        document.add_u64(self.fields.file, file_key(path));
        for (at, _) in path.match_indices('/') {
            document.add_text(self.fields.within, &path[..at]);
        }
        document.add_text(self.fields.path, path);
        if let Some(symbol) = &chunk.record.symbol {
            document.add_text(self.fields.name, symbol);
        }
        let (mut code, mut prose) = (String::new(), String::new());
        divide(Script::of(path), &chunk.text, &mut code, &mut prose);
        for (field, text) in [(self.fields.code, code), (self.fields.prose, prose)] {
            if !text.is_empty() {
                document.add_text(field, text);
            }
        }
        self.writer.add_document(document)?;
        Ok(())
    }

    /// Makes the changes visible to those who open the lane from now on, under this generation.
    pub(crate) fn commit(mut self, generation: u64) -> Result<(), LexicalError> {
        fenced(move || {
            let mut prepared = self.writer.prepare_commit()?;
            prepared.set_payload(&generation.to_string());
            prepared.commit()?;
            self.writer.wait_merging_threads()?;
            Ok(())
        })
    }
}

fn schema() -> (Schema, Fields) {
    let indexing =
        TextFieldIndexing::default().set_tokenizer(TOKENIZER_NAME).set_index_option(IndexRecordOption::WithFreqs);
    let words = TextOptions::default().set_indexing_options(indexing);
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_u64_field("id", FAST),
        file: builder.add_u64_field("file", INDEXED),
        within: builder.add_text_field("within", STRING),
        path: builder.add_text_field("path", words.clone()),
        name: builder.add_text_field("name", words.clone()),
        code: builder.add_text_field("code", words.clone()),
        prose: builder.add_text_field("prose", words),
    };
    (builder.build(), fields)
}

/// Turns a panic of a library over a damaged file into an error.
fn fenced<T>(read: impl FnOnce() -> Result<T, LexicalError>) -> Result<T, LexicalError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(LexicalError("a file of it is damaged".to_owned())))
}

/// Our tokenizer in tantivy's clothes.
#[derive(Clone)]
struct CodeTokenizer;

impl Tokenizer for CodeTokenizer {
    type TokenStream<'a> = CodeTokens<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> CodeTokens<'a> {
        CodeTokens { words: words(text), token: Token::default() }
    }
}

struct CodeTokens<'text> {
    words: Words<'text>,
    token: Token,
}

impl TokenStream for CodeTokens<'_> {
    fn advance(&mut self) -> bool {
        let Some((start, end)) = self.words.advance(&mut self.token.text) else { return false };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.offset_from = start;
        self.token.offset_to = end;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
