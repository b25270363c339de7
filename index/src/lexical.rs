//! Which chunks hold these words? BM25 over tantivy; the only file that names it.
//!
//! One document per chunk. The commit bears the generation of the index as its payload, so that a commit that the
//! manifest does not know of is seen. A damaged file can make tantivy panic; every read is fenced so that the caller
//! gets an error instead.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, STRING, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, Term};

use crate::chunk::Chunk;
use crate::tokenize::{Words, words};

const TOKENIZER_NAME: &str = "code";
/// Memory of the writer before it starts a new segment.
const WRITER_BYTES: usize = 64 * 1024 * 1024;
/// A word in the name of the definition counts more than one in its body.
const SYMBOL_BOOST: f32 = 3.0;
/// A word in the path counts a little more, too.
const PATH_BOOST: f32 = 1.5;

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

#[derive(Clone, Copy)]
struct Fields {
    id: Field,
    /// The whole path, to delete by.
    file: Field,
    /// The path and every directory above it, to filter by.
    within: Field,
    path: Field,
    symbol: Field,
    body: Field,
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
    pub(crate) fn search(
        &self,
        words: &[String],
        within: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(u64, f32)>, LexicalError> {
        let mut any: Vec<(Occur, Box<dyn Query>)> = Vec::new();
        for word in words {
            for (field, boost) in
                [(self.fields.body, 1.0), (self.fields.symbol, SYMBOL_BOOST), (self.fields.path, PATH_BOOST)]
            {
                let term = TermQuery::new(Term::from_field_text(field, word), IndexRecordOption::WithFreqs);
                any.push((Occur::Should, Box::new(BoostQuery::new(Box::new(term), boost))));
            }
        }
        let mut query: Box<dyn Query> = Box::new(BooleanQuery::new(any));
        if let Some(within) = within {
            let term = TermQuery::new(Term::from_field_text(self.fields.within, within), IndexRecordOption::Basic);
            let filter = BoostQuery::new(Box::new(term), 0.0);
            query = Box::new(BooleanQuery::new(vec![(Occur::Must, query), (Occur::Must, Box::new(filter))]));
        }
        fenced(|| {
            let searcher = self.reader.searcher();
            let top = searcher.search(&query, &TopDocs::with_limit(limit.max(1)).order_by_score())?;
            let mut found = Vec::with_capacity(top.len());
            for (score, address) in top {
                let ids = searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?;
                found.extend(ids.first(address.doc_id).map(|id| (id, score)));
            }
            Ok(found)
        })
    }

    /// The stored texts of these chunks; chunks that are not there are left out.
    pub(crate) fn texts(&self, ids: &[u64]) -> Result<HashMap<u64, String>, LexicalError> {
        fenced(|| {
            let searcher = self.reader.searcher();
            let mut texts = HashMap::new();
            for &id in ids {
                let query = TermQuery::new(Term::from_field_u64(self.fields.id, id), IndexRecordOption::Basic);
                let top = searcher.search(&query, &TopDocs::with_limit(1).order_by_score())?;
                if let Some((_, address)) = top.first() {
                    let document: TantivyDocument = searcher.doc(*address)?;
                    let text = document.get_first(self.fields.body).and_then(|value| value.as_str().map(str::to_owned));
                    texts.extend(text.map(|text| (id, text)));
                }
            }
            Ok(texts)
        })
    }

    /// Starts to write. Nothing is seen by anybody before [`LexicalWriter::commit`].
    pub(crate) fn writer(&self) -> Result<LexicalWriter, LexicalError> {
        let writer = fenced(|| Ok(self.index.writer_with_num_threads(1, WRITER_BYTES)?))?;
        Ok(LexicalWriter { writer, fields: self.fields })
    }

    /// The ids of all live documents, with their texts.
    #[cfg(test)]
    pub(crate) fn everything(&self) -> std::collections::BTreeMap<u64, String> {
        let searcher = self.reader.searcher();
        let limit = (searcher.num_docs() as usize).max(1);
        let top = searcher
            .search(&tantivy::query::AllQuery, &TopDocs::with_limit(limit).order_by_score())
            .expect("a sound index can be listed");
        let documents = top.into_iter().map(|(_, address)| searcher.doc::<TantivyDocument>(address).expect("sound"));
        documents
            .map(|document| {
                let id = document.get_first(self.fields.id).and_then(|value| value.as_u64()).expect("has an id");
                let text = document.get_first(self.fields.body).and_then(|value| value.as_str()).expect("has a text");
                (id, text.to_owned())
            })
            .collect()
    }
}

/// Changes that become visible together.
pub(crate) struct LexicalWriter {
    writer: IndexWriter,
    fields: Fields,
}

impl LexicalWriter {
    /// Drops all chunks of a file.
    pub(crate) fn remove(&self, path: &str) {
        self.writer.delete_term(Term::from_field_text(self.fields.file, path));
    }

    /// Adds one chunk of a file.
    pub(crate) fn add(&self, path: &str, chunk: &Chunk) -> Result<(), LexicalError> {
        let mut document = TantivyDocument::new();
        document.add_u64(self.fields.id, chunk.record.id);
        document.add_text(self.fields.file, path);
        document.add_text(self.fields.within, path);
        for (at, _) in path.match_indices('/') {
            document.add_text(self.fields.within, &path[..at]);
        }
        document.add_text(self.fields.path, path);
        document.add_text(self.fields.symbol, chunk.record.symbol.as_deref().unwrap_or_default());
        document.add_text(self.fields.body, &chunk.text);
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
    let words = |stored: bool| {
        let indexing =
            TextFieldIndexing::default().set_tokenizer(TOKENIZER_NAME).set_index_option(IndexRecordOption::WithFreqs);
        let options = TextOptions::default().set_indexing_options(indexing);
        if stored { options.set_stored() } else { options }
    };
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_u64_field("id", INDEXED | FAST | STORED),
        file: builder.add_text_field("file", STRING),
        within: builder.add_text_field("within", STRING),
        path: builder.add_text_field("path", words(false)),
        symbol: builder.add_text_field("symbol", words(false)),
        body: builder.add_text_field("body", words(true)),
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
        let Some(word) = self.words.next() else { return false };
        self.token.position = self.token.position.wrapping_add(1);
        self.token.offset_from = word.start;
        self.token.offset_to = word.end;
        self.token.text = word.text;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}
