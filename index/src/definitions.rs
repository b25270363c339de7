//! Which definitions does each file hold? The plainest lane there can be: a list for each file, read whole.
//!
//! A segment of kind `CLDEFINE` with one section: per document its number, the count of its definitions, and per
//! definition name, kind, parent, signature, lines and bytes; numbers are varints, texts have their length before them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::document::Document;
use crate::file_no::FileNo;
use crate::files::{kind_of_number, number_of_kind};
use crate::lane::{Lane, LaneError, LaneWriter};
use crate::outline::Definition;
use crate::segment::{Format, Segment, SegmentError, SegmentWriter, Tag};
use crate::varint::{put, put_text, take, take_text};

const FORMAT: Format = Format { kind: *b"CLDEFINE", version: 1 };
const LISTS: Tag = 1;
pub(crate) const DEFINITIONS_PREFIX: &str = "definitions-";

/// The lane.
pub(crate) struct Definitions;

impl Lane for Definitions {
    fn prefix(&self) -> &'static str {
        DEFINITIONS_PREFIX
    }

    fn begin(&self, path: &Path) -> Result<Box<dyn LaneWriter>, LaneError> {
        Ok(Box::new(Lists::create(path)?))
    }

    fn check(&self, path: &Path) -> Result<(), LaneError> {
        Ok(Segment::open(path, FORMAT)?.verify()?)
    }

    fn merge(&self, from: &[PathBuf], alive: &dyn Fn(FileNo) -> bool, to: &Path) -> Result<(), LaneError> {
        let mut lists = Lists::create(to)?;
        for path in from {
            each(path, &mut |file, definitions| {
                if alive(file) { lists.push(file, definitions.iter()) } else { Ok(()) }
            })?;
        }
        Ok(lists.end()?)
    }
}

/// Calls `take` with every file of a segment and its definitions.
pub(crate) fn each(
    path: &Path,
    take: &mut dyn FnMut(FileNo, Vec<Definition>) -> io::Result<()>,
) -> Result<(), SegmentError> {
    let segment = Segment::open(path, FORMAT)?;
    segment.verify()?;
    let mut bytes = segment.section(LISTS);
    while !bytes.is_empty() {
        let (file, definitions) = take_list(&mut bytes).ok_or(SegmentError::Damaged)?;
        take(file, definitions)?;
    }
    Ok(())
}

struct Lists {
    writer: SegmentWriter,
    bytes: Vec<u8>,
}

impl Lists {
    fn create(path: &Path) -> io::Result<Lists> {
        let mut writer = SegmentWriter::create(path, FORMAT)?;
        writer.section(LISTS)?;
        Ok(Lists { writer, bytes: Vec::new() })
    }

    fn push<'a>(&mut self, file: FileNo, definitions: impl Iterator<Item = &'a Definition> + Clone) -> io::Result<()> {
        put(&mut self.bytes, file.0.into());
        put(&mut self.bytes, definitions.clone().count() as u64);
        definitions.for_each(|definition| put_definition(&mut self.bytes, definition));
        self.writer.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        self.writer.finish().map(|_| ())
    }
}

impl LaneWriter for Lists {
    fn add(&mut self, document: &Document) -> Result<(), LaneError> {
        let listed = document.outline.iter().filter(|item| item.listed).map(|item| &item.definition);
        Ok(self.push(document.file, listed)?)
    }

    fn finish(self: Box<Self>) -> Result<(), LaneError> {
        Ok(self.end()?)
    }
}

fn put_definition(bytes: &mut Vec<u8>, definition: &Definition) {
    put_text(bytes, &definition.name);
    bytes.push(number_of_kind(Some(definition.kind)));
    // No definition stands in something without a name, so that an empty text can say that there is none.
    put_text(bytes, definition.parent.as_deref().unwrap_or_default());
    put_text(bytes, &definition.signature);
    for number in [definition.start_line, definition.end_line, definition.start_byte, definition.end_byte] {
        put(bytes, number as u64);
    }
}

fn take_list(bytes: &mut &[u8]) -> Option<(FileNo, Vec<Definition>)> {
    let file = FileNo(u32::try_from(take(bytes)?).ok()?);
    let count = take(bytes)?;
    let definitions = (0..count).map(|_| take_definition(bytes)).collect::<Option<_>>()?;
    Some((file, definitions))
}

fn take_definition(bytes: &mut &[u8]) -> Option<Definition> {
    let name = take_text(bytes)?;
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    let (parent, signature) = (take_text(bytes)?, take_text(bytes)?);
    let mut number = || usize::try_from(take(bytes)?).ok();
    Some(Definition {
        name,
        kind: kind_of_number(*kind)?,
        parent: (!parent.is_empty()).then_some(parent),
        signature,
        start_line: number()?,
        end_line: number()?,
        start_byte: number()?,
        end_byte: number()?,
    })
}
