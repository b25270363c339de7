//! Which chunks hold these words? BM25 over tantivy; the only file that names it.
//!
//! One document per chunk, in four fields of words: the code, the prose in it (comments, doc strings), the name of the
//! definition, the path. No text is stored, and no positions: a phrase is a matter for the trigram lane
//! (docs/decisions/11). The commit bears the generation of the index as its payload, so that a commit that the manifest
//! does not know of is seen. A damaged file can make tantivy panic; every read is fenced so that the caller gets an
//! error instead.

use std::collections::hash_map::Entry;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustc_hash::FxHashMap;
use tantivy::collector::TopDocs;
use tantivy::columnar::Column;
use tantivy::merge_policy::NoMergePolicy;
use tantivy::postings::Postings;
use tantivy::query::{Bm25StatisticsProvider, BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{DocSet, TERMINATED};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term};

use crate::document::Document;
use crate::file_no::FileNo;
use crate::inflect::forms;
use crate::prose::{Script, divide};
use crate::tokenize::{Words, words};

const TOKENIZER_NAME: &str = "code";
/// Threads that tokenize.
const WRITER_THREADS: usize = 2;
/// Memory of all of them together before they start new segments.
const WRITER_BYTES: usize = 40 * 1024 * 1024;
/// What a word counts in each field; see the table in `search.rs` for how these were found.
const CODE_WEIGHT: f32 = 1.0;
const PROSE_WEIGHT: f32 = 1.0;
const NAME_WEIGHT: f32 = 3.0;
const PATH_WEIGHT: f32 = 1.5;
/// How soon a file that says a word often has said enough, and how much longer files must say it more often.
const FILE_SATURATION: f32 = 1.2;
const FILE_LENGTH_SHARE: f32 = 0.5;
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
    /// See [`chunk_id`].
    id: Field,
    /// The number of the file, to delete and to filter by.
    file: Field,
    /// Every directory above the file, to filter by.
    within: Field,
    path: Field,
    name: Field,
    code: Field,
    prose: Field,
}

/// The part of the tree that is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within<'a> {
    /// A directory.
    pub path: &'a str,
    /// Or the file of that path, as this lane numbers it.
    pub file: Option<FileNo>,
}

/// Names a chunk in the text lane: the number of its file, then its place in the file.
pub(crate) fn chunk_id(file: FileNo, at: usize) -> u64 {
    u64::from(file.0) << 32 | at as u64
}

/// The number and the place in a [`chunk_id`].
pub(crate) fn parts_of_id(id: u64) -> (FileNo, usize) {
    (FileNo((id >> 32) as u32), id as u32 as usize)
}

/// What a commit of the text lane says of itself. A commit holds the files of its own generation and those of all
/// generations before it, down to `purged`: files that are gone leave only with a later commit, so that a refresh
/// that dies between this commit and the manifest has harmed nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Commit {
    pub generation: u64,
    /// Files that were gone in this generation are no longer there.
    pub purged: u64,
    /// The number of the next new file.
    pub next_file: u32,
}

impl Commit {
    fn payload(self) -> String {
        format!("{} {} {}", self.generation, self.purged, self.next_file)
    }

    fn of_payload(payload: &str) -> Option<Commit> {
        let mut parts = payload.split(' ').map(str::parse);
        let mut number = || parts.next()?.ok();
        Some(Commit { generation: number()?, purged: number()?, next_file: u32::try_from(number()?).ok()? })
    }

    /// Whether everything that lived in `generation` is there.
    pub(crate) fn serves(self, generation: u64) -> bool {
        self.purged <= generation && generation <= self.generation
    }
}

/// The text lane as it was when it was opened.
pub(crate) struct Lexical {
    index: Index,
    fields: Fields,
    reader: IndexReader,
    commit: Option<Commit>,
}

impl Lexical {
    /// Makes an empty one in a new directory.
    pub(crate) fn create(directory: &Path) -> Result<Lexical, LexicalError> {
        std::fs::create_dir_all(directory).map_err(|error| LexicalError(error.to_string()))?;
        Lexical::over(fenced(|| Ok(Index::create_in_dir(directory, schema().0)?))?)
    }

    /// Makes an empty one that is gone with this value.
    pub(crate) fn in_memory() -> Result<Lexical, LexicalError> {
        Lexical::over(Index::create_in_ram(schema().0))
    }

    /// Sees what was committed since it was opened.
    pub(crate) fn reload(&self) -> Result<(), LexicalError> {
        fenced(|| Ok(self.reader.reload()?))
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
            let commit = index.load_metas()?.payload.and_then(|payload| Commit::of_payload(&payload));
            Ok(Lexical { fields: schema().1, reader, commit, index: index.clone() })
        })
    }

    /// The last commit; nothing where there was none.
    pub(crate) fn commit(&self) -> Option<Commit> {
        self.commit
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
    /// telling by standing in a path. Where this is a small part beside a `whole`, that tells how rare a word is; then
    /// the scores of both compare.
    pub(crate) fn search(
        &self,
        wanted: &[Wanted],
        within: Option<Within<'_>>,
        limit: usize,
        whole: Option<&Lexical>,
    ) -> Result<Vec<(u64, f32)>, LexicalError> {
        fenced(|| {
            let searcher = self.reader.searcher();
            let whole = whole.map(|whole| whole.reader.searcher());
            let whole = whole.as_ref();
            let mut asked =
                Asked { fields: self.fields, searcher: &searcher, whole, bearers: FxHashMap::default(), any: vec![] };
            for word in wanted {
                asked.word(word)?;
            }
            let Asked { any, bearers, .. } = asked;
            let mut query: Box<dyn Query> = Box::new(BooleanQuery::new(any));
            if let Some(within) = within {
                let filter = BoostQuery::new(self.inside(within), 0.0);
                query = Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, Box::new(filter))]));
            }
            let rarity = Rarity { searcher: whole.unwrap_or(&searcher), bearers };
            let collector = TopDocs::with_limit(limit.max(1)).order_by_score();
            let top = searcher.search_with_statistics_provider(&query, &collector, &rarity)?;
            // Opening a column costs more than the search of a rare word.
            let mut columns: FxHashMap<u32, Column<u64>> = FxHashMap::default();
            let mut found = Vec::with_capacity(top.len());
            for (score, address) in top {
                let ids = match columns.entry(address.segment_ord) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        new.insert(searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?)
                    }
                };
                found.extend(ids.first(address.doc_id).map(|id| (id, score)));
            }
            Ok(found)
        })
    }

    /// What the words say about whole files: BM25F (Robertson, Zaragoza and Taylor, "Simple BM25 Extension to Multiple
    /// Weighted Fields", CIKM 2004) with a file as the document, its length in chunks from `chunks`, which says nothing
    /// of a file that is gone. In no order.
    pub(crate) fn files(
        &self,
        wanted: &[Wanted],
        chunks: &dyn Fn(FileNo) -> Option<usize>,
        (count, mean): (usize, f32),
    ) -> Result<Vec<(FileNo, f32)>, LexicalError> {
        fenced(|| {
            let searcher = self.reader.searcher();
            let mut scores: FxHashMap<FileNo, f32> = FxHashMap::default();
            for word in wanted {
                let other = if word.inflected { forms(&word.text) } else { Vec::new() };
                let forms = [(word.text.as_str(), 1.0)].into_iter();
                for (form, share) in forms.chain(other.iter().map(|form| (form.as_str(), FORM_WEIGHT))) {
                    let said = self.said(&searcher, form)?;
                    let rarity =
                        (1.0 + (count as f32 - said.len() as f32 + 0.5).max(0.0) / (said.len() as f32 + 0.5)).ln();
                    for (file, times) in said {
                        let Some(chunks) = chunks(file) else { continue };
                        let length = 1.0 - FILE_LENGTH_SHARE + FILE_LENGTH_SHARE * chunks as f32 / mean;
                        let told = times * (FILE_SATURATION + 1.0) / (times + FILE_SATURATION * length);
                        *scores.entry(file).or_default() += word.weight * share * rarity * told;
                    }
                }
            }
            Ok(scores.into_iter().collect())
        })
    }

    /// How often each file says a word, in all fields together.
    fn said(&self, searcher: &Searcher, text: &str) -> tantivy::Result<FxHashMap<FileNo, f32>> {
        let Fields { name, code, prose, .. } = self.fields;
        let mut said: FxHashMap<FileNo, f32> = FxHashMap::default();
        for segment in searcher.segment_readers() {
            let ids = segment.fast_fields().u64("id")?;
            let alive = segment.alive_bitset();
            for (field, weight) in [(code, CODE_WEIGHT), (prose, PROSE_WEIGHT), (name, NAME_WEIGHT)] {
                let term = Term::from_field_text(field, text);
                let Some(mut found) =
                    segment.inverted_index(field)?.read_postings(&term, IndexRecordOption::WithFreqs)?
                else {
                    continue;
                };
                while found.doc() != TERMINATED {
                    if let Some(id) =
                        ids.first(found.doc()).filter(|_| alive.is_none_or(|alive| alive.is_alive(found.doc())))
                    {
                        *said.entry(parts_of_id(id).0).or_default() += weight * found.term_freq() as f32;
                    }
                    found.advance();
                }
            }
        }
        Ok(said)
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
    fn inside(&self, within: Within<'_>) -> Box<dyn Query> {
        let directory = Term::from_field_text(self.fields.within, within.path);
        let file = within.file.map(|file| Term::from_field_u64(self.fields.file, file.0.into()));
        let any = [directory].into_iter().chain(file).map(|term| -> (Occur, Box<dyn Query>) {
            (Occur::Should, Box::new(TermQuery::new(term, IndexRecordOption::Basic)))
        });
        Box::new(BooleanQuery::new(any.collect()))
    }

    /// Starts to write. Nothing is seen by anybody before [`LexicalWriter::commit`].
    pub(crate) fn writer(&self) -> Result<LexicalWriter, LexicalError> {
        let writer = fenced(|| {
            let writer: IndexWriter = self.index.writer_with_num_threads(WRITER_THREADS, WRITER_BYTES)?;
            // One that died left files behind whose names this one may give again.
            writer.garbage_collect_files().wait()?;
            if self.commit.is_none() {
                writer.set_merge_policy(Box::new(NoMergePolicy));
            }
            Ok(writer)
        })?;
        Ok(LexicalWriter { writer, fields: self.fields, is_first: self.commit.is_none() })
    }

    /// The ids of all documents.
    #[cfg(test)]
    pub(crate) fn everything(&self) -> std::collections::BTreeSet<u64> {
        let searcher = self.reader.searcher();
        let mut ids = std::collections::BTreeSet::new();
        for segment in searcher.segment_readers() {
            let column = segment.fast_fields().u64("id").expect("a sound index has ids");
            ids.extend(segment.doc_ids_alive().filter_map(|document| column.first(document)));
        }
        ids
    }
}

/// A query in the making.
struct Asked<'a> {
    fields: Fields,
    searcher: &'a Searcher,
    /// Tells how rare a word is, where this is not all that is searched.
    whole: Option<&'a Searcher>,
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
        let bearers = self.whole.map_or(Ok(bearers), |whole| self::bearers(whole, &self.fields, text))?;
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

/// Changes that become visible together.
pub(crate) struct LexicalWriter {
    writer: IndexWriter,
    fields: Fields,
    /// Whether it fills an empty lane: then all segments become one at the end, which has each word once.
    is_first: bool,
}

impl LexicalWriter {
    /// Drops all chunks of a file.
    pub(crate) fn remove(&self, file: FileNo) {
        self.writer.delete_term(Term::from_field_u64(self.fields.file, file.0.into()));
    }

    /// Adds all chunks of a file. Several threads may do so at a time.
    pub(crate) fn add(&self, file: &Document) -> Result<(), LexicalError> {
        let script = Script::of(&file.path);
        for (at, chunk) in file.chunks.iter().enumerate() {
            let mut document = TantivyDocument::new();
            document.add_u64(self.fields.id, chunk_id(file.file, at));
            document.add_u64(self.fields.file, file.file.0.into());
            for (at, _) in file.path.match_indices('/') {
                document.add_text(self.fields.within, &file.path[..at]);
            }
            document.add_text(self.fields.path, &file.path);
            if let Some(symbol) = &chunk.symbol {
                document.add_text(self.fields.name, symbol);
            }
            let (mut code, mut prose) = (String::new(), String::new());
            divide(script, file.text_of(chunk), &mut code, &mut prose);
            for (field, text) in [(self.fields.code, code), (self.fields.prose, prose)] {
                if !text.is_empty() {
                    document.add_text(field, text);
                }
            }
            self.writer.add_document(document)?;
        }
        Ok(())
    }

    /// Makes the changes visible to those who open the lane from now on.
    pub(crate) fn commit(&mut self, commit: Commit) -> Result<(), LexicalError> {
        fenced(|| {
            let mut prepared = self.writer.prepare_commit()?;
            prepared.set_payload(&commit.payload());
            prepared.commit()?;
            Ok(())
        })
    }

    /// Lets what was begun in the background come to its end.
    pub(crate) fn finish(mut self) -> Result<(), LexicalError> {
        fenced(|| {
            let segments = self.writer.index().searchable_segment_ids()?;
            if self.is_first && segments.len() > 1 {
                self.writer.merge(&segments).wait()?;
                self.writer.garbage_collect_files().wait()?;
            }
            Ok(self.writer.wait_merging_threads()?)
        })
    }
}

fn schema() -> (Schema, Fields) {
    let indexing =
        TextFieldIndexing::default().set_tokenizer(TOKENIZER_NAME).set_index_option(IndexRecordOption::WithFreqs);
    let words = TextOptions::default().set_indexing_options(indexing);
    // Where a chunk lies is no matter of how long the path is: a byte for each chunk and field saved.
    let whole = TextFieldIndexing::default().set_tokenizer("raw").set_fieldnorms(false);
    let whole = TextOptions::default().set_indexing_options(whole.set_index_option(IndexRecordOption::Basic));
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_u64_field("id", FAST),
        file: builder.add_u64_field("file", NumericOptions::default().set_indexed()),
        within: builder.add_text_field("within", whole),
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
