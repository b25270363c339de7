//! How do the symbols of many files become one segment?
//!
//! Files come in any order and are kept small in memory until `finish`, which orders everything: the same files give
//! the same bytes. A tree of five million lines takes about 150 MB here; who has less writes several segments.

use std::io::Write;
use std::path::Path;

use fst::MapBuilder;
use rustc_hash::{FxHashMap, FxHashSet};

use super::SymbolError;
use super::segment::SymbolSegment;
use super::wire::{self, Parent, Stored};
use crate::file_no::FileNo;
use crate::parsed::Syntax;
use crate::segment::SegmentWriter;
use crate::tokenize::words;
use crate::varint::{put, put_ascending};

/// Names that one file uses and the lane remembers.
const USED_NAMES_MAX: usize = 5000;
/// What a name costs in memory beside its bytes: the entry of the map, the allocation.
const NAME_BYTES_BESIDE: usize = 48;

/// Gathers the symbols of files.
#[derive(Default)]
pub(crate) struct SymbolWriter {
    names: Interner,
    imports: Interner,
    files: Vec<FileDraft>,
    /// (name, place of the file)
    uses: Vec<(u32, u32)>,
}

struct FileDraft {
    number: FileNo,
    definitions: Vec<Stored>,
    imports: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Interner {
    ids: FxHashMap<Box<str>, u32>,
    bytes: usize,
}

impl Interner {
    pub(super) fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.ids.len() as u32;
        self.bytes += text.len() + NAME_BYTES_BESIDE;
        self.ids.insert(text.into(), id);
        id
    }

    /// The texts in order, each with its id.
    fn sorted(self) -> Vec<(Box<str>, u32)> {
        let mut all: Vec<(Box<str>, u32)> = self.ids.into_iter().collect();
        all.sort_unstable();
        all
    }
}

impl SymbolWriter {
    /// Adds what was found in one file. `bytes` are those that were read; no file may be added twice.
    pub(crate) fn add(&mut self, file: FileNo, syntax: &Syntax, bytes: &[u8]) {
        let mut places: FxHashMap<String, u32> = FxHashMap::default();
        let mut definitions: Vec<Stored> = Vec::new();
        let mut parent_before: Option<&str> = None;
        for item in syntax.outline.iter().filter(|item| item.listed) {
            let definition = &item.definition;
            let parent = match definition.parent.as_deref() {
                None => Parent::None,
                Some(parent) if parent_before == Some(parent) => Parent::Same,
                Some(parent) => {
                    places.get(parent).map_or_else(|| Parent::Text(parent.to_owned()), |at| Parent::Place(*at))
                }
            };
            parent_before = definition.parent.as_deref();
            if definition.kind.has_methods() || definition.kind.is_callable() || definition.kind == crate::Kind::Module
            {
                places.entry(definition.qualified()).or_insert(definitions.len() as u32);
            }
            definitions.push(Stored {
                name: self.names.id(&definition.name),
                kind: definition.kind,
                exported: item.exported,
                inside_callable: item.inside_callable,
                start_line: definition.start_line as u32,
                more_lines: (definition.end_line - definition.start_line) as u32,
                head_after: item.head_line.saturating_sub(definition.start_line) as u32,
                head_bytes: item.head_bytes as u32,
                parent,
            });
        }
        let used = syntax.uses.iter().filter_map(|used| std::str::from_utf8(used.text(bytes)).ok());
        let mut seen = FxHashSet::default();
        let used =
            used.filter(|name| seen.insert(*name)).take(USED_NAMES_MAX).map(|name| self.names.id(name)).collect();
        let mut imports: Vec<u32> = syntax.imports.iter().map(|text| self.imports.id(text)).collect();
        imports.sort_unstable();
        imports.dedup();
        self.push(file, definitions, used, imports);
    }

    /// Adds a file by ids of this writer's names and imports.
    pub(super) fn push(&mut self, number: FileNo, definitions: Vec<Stored>, used: Vec<u32>, imports: Vec<u32>) {
        let mut defined: Vec<u32> = definitions.iter().map(|definition| definition.name).collect();
        defined.sort_unstable();
        let place = self.files.len() as u32;
        // A file that defines the name is looked at for uses anyway.
        let foreign = used.into_iter().filter(|name| defined.binary_search(name).is_err());
        self.uses.extend(foreign.map(|name| (name, place)));
        self.files.push(FileDraft { number, definitions, imports });
    }

    pub(super) fn name_id(&mut self, name: &str) -> u32 {
        self.names.id(name)
    }

    pub(super) fn import_id(&mut self, text: &str) -> u32 {
        self.imports.id(text)
    }

    /// About how much memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        let definitions: usize = self.files.iter().map(|file| file.definitions.capacity()).sum();
        let fixed = definitions * size_of::<Stored>() + self.uses.capacity() * size_of::<(u32, u32)>();
        fixed + self.names.bytes + self.imports.bytes + self.files.capacity() * size_of::<FileDraft>()
    }

    /// Writes a segment at `path`, which must not exist yet. Returns its size in bytes.
    pub(crate) fn finish(self, path: &Path) -> Result<u64, SymbolError> {
        Ok(self.write(SegmentWriter::create(path, wire::FORMAT)?)?.finish()?)
    }

    /// Makes a segment that is no file.
    pub(crate) fn in_memory(self) -> Result<SymbolSegment, SymbolError> {
        let written = self.write(SegmentWriter::in_memory(wire::FORMAT)?)?;
        SymbolSegment::of(written.into_segment()?)
    }

    fn write<W: Write>(mut self, mut writer: SegmentWriter<W>) -> Result<SegmentWriter<W>, SymbolError> {
        let mut places: Vec<u32> = (0..self.files.len() as u32).collect();
        places.sort_unstable_by_key(|&at| self.files[at as usize].number);
        let mut place_of = vec![0u32; places.len()];
        places.iter().enumerate().for_each(|(place, &at)| place_of[at as usize] = place as u32);
        self.uses.iter_mut().for_each(|(_, file)| *file = place_of[*file as usize]);
        self.files.sort_unstable_by_key(|file| file.number);

        let imports = self.imports.sorted();
        let names = Names::write(self.names.sorted(), &self.files, self.uses)?;
        write_files(&mut writer, &mut self.files, &names.offsets, &imports)?;
        let mut write = |tag, bytes: &[u8]| {
            writer.section(tag)?;
            writer.write_all(bytes)
        };
        write(wire::NAMES, &names.fst)?;
        write(wire::POSTINGS, &names.postings)?;
        let (fst, postings) = write_words(&names.defined)?;
        write(wire::WORDS, &fst)?;
        write(wire::WORD_POSTINGS, &postings)?;
        write(wire::IMPORTS, &fst_of(imports.iter().enumerate().map(|(at, (text, _))| (&**text, at as u64)))?)?;
        let mut counts = Vec::new();
        put(&mut counts, names.defined.len() as u64);
        put(&mut counts, self.files.iter().map(|file| file.definitions.len() as u64).sum());
        write(wire::COUNTS, &counts)?;
        Ok(writer)
    }
}

/// The names and their postings.
struct Names {
    fst: Vec<u8>,
    postings: Vec<u8>,
    /// The offset of a name by its id.
    offsets: Vec<u32>,
    /// Names with a definition, in order, and their offsets.
    defined: Vec<(Box<str>, u32)>,
}

impl Names {
    fn write(sorted: Vec<(Box<str>, u32)>, files: &[FileDraft], uses: Vec<(u32, u32)>) -> Result<Names, SymbolError> {
        let definitions = files.iter().enumerate().flat_map(|(file, draft)| {
            let places = draft.definitions.iter().enumerate();
            places.map(move |(place, stored)| (stored.name, (file as u32, place as u32)))
        });
        let definitions = Grouped::of(sorted.len(), definitions.collect());
        let uses = Grouped::of(sorted.len(), uses);
        let mut builder = MapBuilder::memory();
        let (mut postings, mut offsets, mut defined) = (Vec::new(), vec![0; sorted.len()], Vec::new());
        for (name, id) in sorted {
            let (own, used) = (definitions.group(id), uses.group(id));
            if own.is_empty() && used.is_empty() {
                continue;
            }
            let offset = u32::try_from(postings.len()).map_err(|_| SymbolError::TooLarge)?;
            offsets[id as usize] = offset;
            builder.insert(name.as_bytes(), u64::from(offset))?;
            put(&mut postings, own.len() as u64);
            let (mut last_file, mut last_place) = (0, 0);
            for &(file, place) in own {
                put(&mut postings, u64::from(file - last_file));
                put(&mut postings, u64::from(if file == last_file { place - last_place } else { place }));
                (last_file, last_place) = (file, place);
            }
            put_ascending(&mut postings, used);
            if !own.is_empty() {
                defined.push((name, offset));
            }
        }
        Ok(Names { fst: builder.into_inner()?, postings, offsets, defined })
    }
}

/// Items by key, each group in ascending order.
struct Grouped<T> {
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Ord + Default> Grouped<T> {
    fn of(keys: usize, pairs: Vec<(u32, T)>) -> Grouped<T> {
        let mut starts = vec![0u32; keys + 1];
        pairs.iter().for_each(|(key, _)| starts[*key as usize + 1] += 1);
        (0..keys).for_each(|at| starts[at + 1] += starts[at]);
        let mut next = starts.clone();
        let mut items = vec![T::default(); pairs.len()];
        for (key, item) in pairs {
            items[next[key as usize] as usize] = item;
            next[key as usize] += 1;
        }
        (0..keys).for_each(|at| items[starts[at] as usize..starts[at + 1] as usize].sort_unstable());
        Grouped { starts, items }
    }

    fn group(&self, key: u32) -> &[T] {
        let key = key as usize;
        &self.items[self.starts[key] as usize..self.starts[key + 1] as usize]
    }
}

fn write_files<W: Write>(
    writer: &mut SegmentWriter<W>,
    files: &mut [FileDraft],
    offsets: &[u32],
    imports: &[(Box<str>, u32)],
) -> Result<(), SymbolError> {
    let mut import_place = vec![0u32; imports.len()];
    imports.iter().enumerate().for_each(|(place, (_, id))| import_place[*id as usize] = place as u32);
    writer.section(wire::FILES)?;
    files.iter().try_for_each(|file| writer.write_all(&file.number.0.to_le_bytes()))?;
    writer.section(wire::BLOCKS)?;
    let (mut starts, mut block, mut at) = (vec![0u32], Vec::new(), 0u64);
    for file in files {
        block.clear();
        put(&mut block, file.definitions.len() as u64);
        let mut before = 0;
        for stored in &mut file.definitions {
            stored.name = offsets[stored.name as usize];
            stored.put(&mut block, before);
            before = stored.start_line;
        }
        let mut imported: Vec<u32> = file.imports.iter().map(|id| import_place[*id as usize]).collect();
        imported.sort_unstable();
        put_ascending(&mut block, &imported);
        writer.write_all(&block)?;
        at += block.len() as u64;
        starts.push(u32::try_from(at).map_err(|_| SymbolError::TooLarge)?);
    }
    writer.section(wire::BLOCK_STARTS)?;
    starts.iter().try_for_each(|start| writer.write_all(&start.to_le_bytes()))?;
    Ok(())
}

/// The parts of names, and for each the names that have it. The whole of a compound name is none of its parts.
fn write_words(defined: &[(Box<str>, u32)]) -> Result<(Vec<u8>, Vec<u8>), SymbolError> {
    let mut by_word: FxHashMap<String, Vec<u32>> = FxHashMap::default();
    for (name, offset) in defined {
        for word in parts(name) {
            let names = by_word.entry(word).or_default();
            if names.last() != Some(offset) {
                names.push(*offset);
            }
        }
    }
    let mut sorted: Vec<(String, Vec<u32>)> = by_word.into_iter().collect();
    sorted.sort_unstable();
    let (mut postings, mut starts) = (Vec::new(), Vec::with_capacity(sorted.len()));
    for (_, names) in &sorted {
        starts.push(postings.len() as u64);
        put_ascending(&mut postings, names);
    }
    let fst = fst_of(sorted.iter().zip(starts).map(|((word, _), start)| (word.as_str(), start)))?;
    Ok((fst, postings))
}

/// The words of a name, lower-case, without the whole where it has several.
pub(super) fn parts(name: &str) -> Vec<String> {
    let mut all: Vec<String> = words(name).map(|word| word.text).collect();
    if all.len() > 1 {
        all.remove(0);
    }
    all
}

fn fst_of<'a>(entries: impl Iterator<Item = (&'a str, u64)>) -> Result<Vec<u8>, SymbolError> {
    let mut builder = MapBuilder::memory();
    for (text, value) in entries {
        builder.insert(text.as_bytes(), value)?;
    }
    Ok(builder.into_inner()?)
}
