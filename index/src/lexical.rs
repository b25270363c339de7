//! Which chunks hold these words? BM25 over tantivy; the only file that names it.
//!
//! One document per chunk. The commit bears the generation of the index as its payload, so that a commit that the
//! manifest does not know of is seen. A damaged file can make tantivy panic; every read is fenced so that the caller
//! gets an error instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tantivy::collector::TopDocs;
use tantivy::query::{BooleanQuery, BoostQuery, Occur, Query, TermQuery};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, STRING, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyDocument, Term};

use crate::document::Document;
use crate::file_no::FileNo;
use crate::tokenize::{Words, words};

const TOKENIZER_NAME: &str = "code";
/// Threads that tokenize.
const WRITER_THREADS: usize = 2;
/// Memory of all of them together before they start new segments.
const WRITER_BYTES: usize = 128 * 1024 * 1024;
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
    /// See [`chunk_id`].
    id: Field,
    /// The number of the file, to delete by.
    file: Field,
    /// The path and every directory above it, to filter by.
    within: Field,
    path: Field,
    symbol: Field,
    body: Field,
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

    /// Chunk ids with their BM25 scores, best first. A chunk needs one of the words. How rare a word is, is told by
    /// `whole` where this is a small part beside it; then the scores of both compare.
    pub(crate) fn search(
        &self,
        words: &[String],
        within: Option<&str>,
        limit: usize,
        whole: Option<&Lexical>,
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
            let whole = whole.map_or_else(|| searcher.clone(), |whole| whole.reader.searcher());
            let best = TopDocs::with_limit(limit.max(1)).order_by_score();
            let top = searcher.search_with_statistics_provider(&query, &best, &whole)?;
            let mut found = Vec::with_capacity(top.len());
            for (score, address) in top {
                let ids = searcher.segment_reader(address.segment_ord).fast_fields().u64("id")?;
                found.extend(ids.first(address.doc_id).map(|id| (id, score)));
            }
            Ok(found)
        })
    }

    /// Starts to write. Nothing is seen by anybody before [`LexicalWriter::commit`].
    pub(crate) fn writer(&self) -> Result<LexicalWriter, LexicalError> {
        let writer = fenced(|| Ok(self.index.writer_with_num_threads(WRITER_THREADS, WRITER_BYTES)?))?;
        Ok(LexicalWriter { writer, fields: self.fields })
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

/// Changes that become visible together.
pub(crate) struct LexicalWriter {
    writer: IndexWriter,
    fields: Fields,
}

impl LexicalWriter {
    /// Drops all chunks of a file.
    pub(crate) fn remove(&self, file: FileNo) {
        self.writer.delete_term(Term::from_field_u64(self.fields.file, file.0.into()));
    }

    /// Adds all chunks of a file. Several threads may do so at a time.
    pub(crate) fn add(&self, file: &Document) -> Result<(), LexicalError> {
        for (at, chunk) in file.chunks.iter().enumerate() {
            let mut document = TantivyDocument::new();
            document.add_u64(self.fields.id, chunk_id(file.file, at));
            document.add_u64(self.fields.file, file.file.0.into());
            document.add_text(self.fields.within, &file.path);
            for (at, _) in file.path.match_indices('/') {
                document.add_text(self.fields.within, &file.path[..at]);
            }
            document.add_text(self.fields.path, &file.path);
            document.add_text(self.fields.symbol, chunk.symbol.as_deref().unwrap_or_default());
            document.add_text(self.fields.body, file.text_of(chunk));
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
    pub(crate) fn finish(self) -> Result<(), LexicalError> {
        fenced(|| Ok(self.writer.wait_merging_threads()?))
    }
}

fn schema() -> (Schema, Fields) {
    let words = || {
        let indexing =
            TextFieldIndexing::default().set_tokenizer(TOKENIZER_NAME).set_index_option(IndexRecordOption::WithFreqs);
        TextOptions::default().set_indexing_options(indexing)
    };
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_u64_field("id", FAST),
        file: builder.add_u64_field("file", INDEXED),
        within: builder.add_text_field("within", STRING),
        path: builder.add_text_field("path", words()),
        symbol: builder.add_text_field("symbol", words()),
        body: builder.add_text_field("body", words()),
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
