//! In what kind of file does a lane of our own lie? In segments: written once, mapped, checked, dropped whole.
//!
//! Layout, all numbers little-endian: 8 bytes kind, 4 bytes version, 4 bytes zero; the sections, each beginning at a
//! multiple of 8; the table, per section 4 bytes tag, 4 bytes zero, 8 bytes start, 8 bytes length, 4 bytes CRC-32 of
//! its bytes, 4 bytes zero; 8 bytes start of the table, 4 bytes CRC-32 of header and table, 4 bytes zero. Opening checks
//! header and table and
//! costs nothing else; [`Segment::verify`] reads everything.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use crc32fast::Hasher;

use crate::map::Map;

const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 32;
const FOOTER_BYTES: usize = 16;
const ALIGNMENT: u64 = 8;
/// No lane needs more.
const SECTIONS_MAX: usize = 64;

/// What kind of segment a file is, and which version of its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    pub kind: [u8; 8],
    pub version: u32,
}

/// Names a section within one kind.
pub(crate) type Tag = u32;

/// Why a segment cannot be used. It can be rebuilt, so the lane says no more than this.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is of another kind or version")]
    Format,
    #[error("it is damaged")]
    Damaged,
}

/// Writes one segment from front to back.
pub(crate) struct SegmentWriter<W = BufWriter<File>> {
    file: W,
    format: Format,
    at: u64,
    sections: Vec<(Tag, u64, u64, u64)>,
    open: Option<(Tag, u64, Hasher)>,
}

impl SegmentWriter {
    /// Begins a segment in a file that does not exist yet.
    pub(crate) fn create(path: &Path, format: Format) -> io::Result<SegmentWriter> {
        SegmentWriter::begin(BufWriter::new(File::create_new(path)?), format)
    }

    /// Ends the segment and makes it durable. Returns its size in bytes.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        let bytes = self.end()?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(bytes)
    }
}

impl SegmentWriter<Vec<u8>> {
    /// Begins a segment that is no file.
    pub(crate) fn in_memory(format: Format) -> io::Result<SegmentWriter<Vec<u8>>> {
        SegmentWriter::begin(Vec::new(), format)
    }

    /// Ends the segment and opens it.
    pub(crate) fn into_segment(mut self) -> Result<Segment, SegmentError> {
        self.end()?;
        Segment::of(Map::Memory(self.file), self.format)
    }
}

impl<W: Write> SegmentWriter<W> {
    fn begin(mut file: W, format: Format) -> io::Result<SegmentWriter<W>> {
        file.write_all(&header(format))?;
        Ok(SegmentWriter { file, format, at: HEADER_BYTES as u64, sections: Vec::new(), open: None })
    }

    /// Ends the section before, if there is one, and begins the next; what is written from now on belongs to it.
    pub(crate) fn section(&mut self, tag: Tag) -> io::Result<()> {
        self.close()?;
        self.open = Some((tag, self.at, Hasher::new()));
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        if let Some((tag, start, digest)) = self.open.take() {
            self.sections.push((tag, start, self.at - start, u64::from(digest.finalize())));
            let gap = (ALIGNMENT - self.at % ALIGNMENT) % ALIGNMENT;
            self.file.write_all(&[0; ALIGNMENT as usize][..gap as usize])?;
            self.at += gap;
        }
        Ok(())
    }

    /// Writes what comes after the sections. Returns the size of the whole in bytes.
    fn end(&mut self) -> io::Result<u64> {
        self.close()?;
        let mut table = Vec::new();
        for (tag, start, length, digest) in &self.sections {
            table.extend(tag.to_le_bytes());
            table.extend([0; 4]);
            [start, length, digest].iter().for_each(|number| table.extend(number.to_le_bytes()));
        }
        self.file.write_all(&table)?;
        self.file.write_all(&self.at.to_le_bytes())?;
        self.file.write_all(&digest_of(&header(self.format), &table).to_le_bytes())?;
        Ok(self.at + (table.len() + FOOTER_BYTES) as u64)
    }
}

impl<W: Write> Write for SegmentWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        let (_, _, digest) = self.open.as_mut().ok_or_else(|| io::Error::other("no section is open"))?;
        digest.update(&bytes[..written]);
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A segment, mapped.
pub(crate) struct Segment {
    map: Map,
    sections: Vec<(Tag, Range<usize>, u64)>,
}

impl Segment {
    /// Opens a segment of this kind and version.
    pub(crate) fn open(path: &Path, format: Format) -> Result<Segment, SegmentError> {
        Segment::of(Map::open(path)?, format)
    }

    fn of(map: Map, format: Format) -> Result<Segment, SegmentError> {
        if map.len() < HEADER_BYTES + FOOTER_BYTES {
            return Err(SegmentError::Damaged);
        }
        if map[..HEADER_BYTES] != header(format) {
            return Err(SegmentError::Format);
        }
        let footer = map.len() - FOOTER_BYTES;
        let start = usize::try_from(number(&map, footer)).map_err(|_| SegmentError::Damaged)?;
        if start < HEADER_BYTES || start > footer || !(footer - start).is_multiple_of(ENTRY_BYTES) {
            return Err(SegmentError::Damaged);
        }
        let table = &map[start..footer];
        if table.len() > SECTIONS_MAX * ENTRY_BYTES || digest_of(&header(format), table) != number(&map, footer + 8) {
            return Err(SegmentError::Damaged);
        }
        let mut sections = Vec::new();
        for at in (start..footer).step_by(ENTRY_BYTES) {
            let tag = number(&map, at) as u32;
            let (from, length) = (number(&map, at + 8) as usize, number(&map, at + 16) as usize);
            let end = from.checked_add(length).filter(|end| from >= HEADER_BYTES && *end <= start);
            sections.push((tag, from..end.ok_or(SegmentError::Damaged)?, number(&map, at + 24)));
        }
        Ok(Segment { map, sections })
    }

    /// The bytes of a section; empty where there is none of this name.
    pub(crate) fn section(&self, tag: Tag) -> &[u8] {
        let found = self.sections.iter().find(|section| section.0 == tag);
        found.map_or(&[], |(_, range, _)| &self.map[range.clone()])
    }

    /// Reads every byte and compares the checksums.
    pub(crate) fn verify(&self) -> Result<(), SegmentError> {
        let sound = |(_, range, digest): &(Tag, Range<usize>, u64)| {
            u64::from(crc32fast::hash(&self.map[range.clone()])) == *digest
        };
        if self.sections.iter().all(sound) { Ok(()) } else { Err(SegmentError::Damaged) }
    }
}

fn header(format: Format) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&format.kind);
    header[8..12].copy_from_slice(&format.version.to_le_bytes());
    header
}

fn digest_of(header: &[u8], table: &[u8]) -> u64 {
    let mut digest = Hasher::new();
    digest.update(header);
    digest.update(table);
    u64::from(digest.finalize())
}

/// The eight bytes at `at`, which the caller knows to be there.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { kind: *b"TESTSEGM", version: 1 };

    fn written() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut writer = SegmentWriter::create(&path, FORMAT).unwrap();
        writer.section(1).unwrap();
        writer.write_all(b"one").unwrap();
        writer.section(7).unwrap();
        writer.write_all(&[7; 1000]).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes, std::fs::metadata(&path).unwrap().len());
        (directory, path)
    }

    #[test]
    fn sections_come_back_as_they_were_written() {
        let (_directory, path) = written();
        let segment = Segment::open(&path, FORMAT).unwrap();
        assert_eq!(segment.section(1), b"one");
        assert_eq!(segment.section(7), [7; 1000]);
        assert!(segment.section(2).is_empty());
        segment.verify().unwrap();
        assert!(matches!(Segment::open(&path, Format { version: 2, ..FORMAT }), Err(SegmentError::Format)));
    }

    #[test]
    fn no_changed_byte_and_no_cut_goes_unseen() {
        let (directory, path) = written();
        let whole = std::fs::read(&path).unwrap();
        let other = directory.path().join("b");
        let sound = |bytes: &[u8]| {
            std::fs::write(&other, bytes).unwrap();
            Segment::open(&other, FORMAT).is_ok_and(|segment| segment.verify().is_ok())
        };
        assert!(sound(&whole));
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            // The bytes between sections mean nothing.
            let padding = (HEADER_BYTES + 3..HEADER_BYTES + 8).contains(&at);
            assert!(padding || !sound(&changed), "byte {at}");
            assert!(!sound(&whole[..at]), "cut at {at}");
        }
    }
}
