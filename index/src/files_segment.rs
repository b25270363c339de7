//! How does the table of files lie on the disk?
//!
//! A segment of kind `CLFILES` with two sections. Rows, sorted by path: bytes shared with the path before, length and
//! bytes of the rest, number, 32 bytes content key, the stamp, flags, the reason of a bare file, class, lines,
//! definitions, count of pieces.
//! Pieces, in the same order: 8 bytes hash, first line less that of the piece before, line count, kind, and the
//! symbol: 0 none, 1 the one before, else 2 + bytes shared with that, length and bytes of the rest. Numbers are varints, those
//! that can be negative zigzag. Each section is one frame of Zstandard, because the table is always read whole. A change of a
//! few files is written as a segment of its own; a later row of a number replaces the earlier.

use std::io::{self, Read, Write};
use std::path::Path;

use crate::admit::Stamp;
use crate::classify::Class;
use crate::file_no::FileNo;
use crate::files::{ChunkRef, FileHead, Files, kind_of_number, number_of_kind};
use crate::hash::PieceHash;
use crate::report::SkipReason;
use crate::segment::{Format, Segment, SegmentError, SegmentWriter, Tag};
use crate::varint::{put, take};
use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

/// A bit beside the kind of a piece.
const SMALL: u8 = 0x80;
const FORMAT: Format = Format { kind: *b"CLFILES\0", version: 4 };
const ROWS: Tag = 1;
const CHUNKS: Tag = 2;

const SETTLED: u8 = 1;
const LOSSY: u8 = 2;
const BARE: u8 = 4;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 64 * 1024;
/// How hard a section is pressed: Zstandard's own default.
const LEVEL: i32 = 3;
/// Bytes of a section at most: fifty times those of five million lines.
const SECTION_BYTES_MAX: u64 = 512 << 20;

/// Writes these rows as a new segment.
pub(crate) fn write(path: &Path, files: &Files, rows: &[usize]) -> io::Result<u64> {
    let mut writer = SegmentWriter::create(path, FORMAT)?;
    let mut bytes = Vec::with_capacity(BUFFER_BYTES * 2);
    writer.section(ROWS)?;
    let mut frame = Encoder::new(&mut writer, LEVEL)?;
    let mut last = "";
    for &row in rows {
        let path = files.path(row);
        put_path(&mut bytes, last, path);
        last = path;
        put_head(&mut bytes, files.head(row), files.chunk_count(row));
        flush(&mut frame, &mut bytes, BUFFER_BYTES)?;
    }
    flush(&mut frame, &mut bytes, 0)?;
    frame.finish()?;
    writer.section(CHUNKS)?;
    let mut frame = Encoder::new(&mut writer, LEVEL)?;
    let mut last = "";
    for &row in rows {
        let mut line = 0;
        for chunk in files.chunks(row) {
            put_chunk(&mut bytes, chunk, &mut line, &mut last);
        }
        flush(&mut frame, &mut bytes, BUFFER_BYTES)?;
    }
    flush(&mut frame, &mut bytes, 0)?;
    frame.finish()?;
    writer.finish()
}

fn flush(frame: &mut impl Write, bytes: &mut Vec<u8>, beyond: usize) -> io::Result<()> {
    if bytes.len() > beyond {
        frame.write_all(bytes)?;
        bytes.clear();
    }
    Ok(())
}

/// Appends the rows of a segment to a table, which must then be settled.
pub(crate) fn read(path: &Path, files: &mut Files) -> Result<(), SegmentError> {
    let segment = Segment::open(path, FORMAT)?;
    segment.verify()?;
    let (rows, chunks) = (unpressed(segment.section(ROWS))?, unpressed(segment.section(CHUNKS))?);
    let (mut rows, mut chunks) = (&rows[..], &chunks[..]);
    let mut path = Vec::new();
    let mut symbol = Vec::new();
    while !rows.is_empty() {
        take_row(&mut rows, &mut chunks, &mut path, &mut symbol, files).ok_or(SegmentError::Damaged)?;
    }
    Ok(())
}

fn unpressed(section: &[u8]) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = Vec::new();
    let read = Decoder::with_buffer(section).and_then(|frame| frame.take(SECTION_BYTES_MAX).read_to_end(&mut bytes));
    // The file was read; what is wrong is in it.
    read.map_err(|_| SegmentError::Damaged).map(|_| bytes)
}

fn take_row(
    rows: &mut &[u8],
    chunks: &mut &[u8],
    path: &mut Vec<u8>,
    symbol: &mut Vec<u8>,
    files: &mut Files,
) -> Option<()> {
    take_path(rows, path)?;
    let (head, count) = take_head(rows)?;
    files.begin(std::str::from_utf8(path).ok()?, head);
    let mut line = 0;
    for _ in 0..count {
        files.push_chunk(take_chunk(chunks, &mut line, symbol)?);
    }
    Some(())
}

/// How many bytes two texts begin with in common.
fn shared_bytes(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}

/// Appends `path` by what it does not share with the one before.
pub(crate) fn put_path(bytes: &mut Vec<u8>, last: &str, path: &str) {
    let shared = shared_bytes(last, path);
    put(bytes, shared as u64);
    put(bytes, (path.len() - shared) as u64);
    bytes.extend(&path.as_bytes()[shared..]);
}

/// Makes the path before into the next.
pub(crate) fn take_path(bytes: &mut &[u8], path: &mut Vec<u8>) -> Option<()> {
    let shared = usize::try_from(take(bytes)?).ok().filter(|shared| *shared <= path.len())?;
    let length = usize::try_from(take(bytes)?).ok()?;
    let (rest, after) = bytes.split_at_checked(length)?;
    path.truncate(shared);
    path.extend(rest);
    *bytes = after;
    Some(())
}

fn put_head(bytes: &mut Vec<u8>, head: &FileHead, chunks: usize) {
    put(bytes, head.file.0.into());
    bytes.extend(head.key);
    put(bytes, head.stamp.size);
    put(bytes, zigzag(head.stamp.mtime));
    put(bytes, zigzag(head.stamp.ctime.wrapping_sub(head.stamp.mtime)));
    put(bytes, head.stamp.inode);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    bytes.push(flag(head.settled, SETTLED) | flag(head.lossy, LOSSY) | flag(head.bare.is_some(), BARE));
    bytes.extend(head.bare.map(SkipReason::number));
    bytes.push(head.class.number());
    put(bytes, head.lines.into());
    put(bytes, head.definitions.into());
    put(bytes, chunks as u64);
}

fn take_head(bytes: &mut &[u8]) -> Option<(FileHead, u64)> {
    let file = FileNo(take_u32(bytes)?);
    let key = take_array(bytes)?;
    let (size, mtime) = (take(bytes)?, unzigzag(take(bytes)?));
    let ctime = unzigzag(take(bytes)?).wrapping_add(mtime);
    let stamp = Stamp { size, mtime, ctime, inode: take(bytes)? };
    let [flags] = take_array(bytes)?;
    let bare = match flags & BARE {
        0 => None,
        _ => Some(SkipReason::of_number(take_array::<1>(bytes)?[0])?),
    };
    let [class] = take_array(bytes)?;
    let head = FileHead {
        file,
        key,
        stamp,
        settled: flags & SETTLED != 0,
        lossy: flags & LOSSY != 0,
        bare,
        class: Class::of_number(class),
        lines: take_u32(bytes)?,
        definitions: take_u32(bytes)?,
    };
    Some((head, take(bytes)?))
}

fn put_chunk<'files>(bytes: &mut Vec<u8>, chunk: ChunkRef<'files>, line: &mut usize, last: &mut &'files str) {
    bytes.extend(chunk.hash.to_bytes());
    put(bytes, zigzag(chunk.start as i64 - *line as i64));
    put(bytes, (chunk.end - chunk.start) as u64);
    bytes.push(number_of_kind(chunk.kind) | if chunk.small { SMALL } else { 0 });
    *line = chunk.start;
    match chunk.symbol {
        None => bytes.push(0),
        Some(symbol) if symbol == *last => bytes.push(1),
        Some(symbol) => {
            let shared = shared_bytes(last, symbol);
            put(bytes, shared as u64 + 2);
            put(bytes, (symbol.len() - shared) as u64);
            bytes.extend(&symbol.as_bytes()[shared..]);
            *last = symbol;
        }
    }
}

/// `last` is the symbol before, as bytes: what two symbols share may end within a character.
fn take_chunk<'last>(bytes: &mut &[u8], line: &mut i64, last: &'last mut Vec<u8>) -> Option<ChunkRef<'last>> {
    let hash = PieceHash::from_bytes(take_array(bytes)?);
    *line = line.checked_add(unzigzag(take(bytes)?))?;
    let start = u32::try_from(*line).ok()?;
    let end = start.checked_add(take_u32(bytes)?)?;
    let [kind] = take_array(bytes)?;
    let tag = take(bytes)?;
    if tag >= 2 {
        let shared = usize::try_from(tag - 2).ok().filter(|shared| *shared <= last.len())?;
        let length = usize::try_from(take(bytes)?).ok()?;
        let (rest, after) = bytes.split_at_checked(length)?;
        last.truncate(shared);
        last.extend(rest);
        *bytes = after;
    }
    let symbol = if tag == 0 { None } else { Some(std::str::from_utf8(last).ok()?) };
    let (start, end, small) = (start as usize, end as usize, kind & SMALL != 0);
    Some(ChunkRef { hash, start, end, symbol, kind: kind_of_number(kind & !SMALL), small })
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take(bytes)?).ok()
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub(crate) fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::{listed, push};

    fn sample() -> Files {
        let mut files = Files::default();
        for number in 0..40u32 {
            push(&mut files, &format!("src/dir_{}/file_{number}.rs", number / 10), number);
        }
        files.settle(&Default::default());
        files
    }

    #[test]
    fn a_table_comes_back_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("files-1");
        let files = sample();
        write(&path, &files, &(0..files.len()).collect::<Vec<_>>()).unwrap();
        let mut again = Files::default();
        read(&path, &mut again).unwrap();
        again.settle(&Default::default());
        assert_eq!(listed(&again), listed(&files));
    }

    #[test]
    fn numbers_with_a_sign_survive() {
        for number in [0, 1, -1, 500, -500, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(number)), number);
        }
    }

    #[test]
    fn a_table_whose_bytes_make_no_sense_is_refused_without_a_panic() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("files-1");
        for (rows, chunks) in [(vec![9, 9, 9], vec![]), (vec![0; 60], vec![]), (vec![0x80; 11], vec![1])] {
            let mut writer = SegmentWriter::create(&path, FORMAT).unwrap();
            writer.section(ROWS).unwrap();
            writer.write_all(&zstd::encode_all(&rows[..], LEVEL).unwrap()).unwrap();
            writer.section(CHUNKS).unwrap();
            writer.write_all(&zstd::encode_all(&chunks[..], LEVEL).unwrap()).unwrap();
            writer.finish().unwrap();
            assert!(read(&path, &mut Files::default()).is_err());
            std::fs::remove_file(&path).unwrap();
        }
    }
}
