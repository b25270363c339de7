//! How do several segments become one? By reading what lives into a writer: a merged segment has the bytes that the
//! writer would have made of the living files.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::SymbolError;
use super::segment::SymbolSegment;
use super::wire::Stored;
use super::writer::SymbolWriter;
use crate::file_no::FileNo;

/// Writes the living files of `segments` as one segment at `path`. Returns its size in bytes.
pub(crate) fn merge(
    segments: &[&SymbolSegment],
    alive: &dyn Fn(FileNo) -> bool,
    path: &Path,
) -> Result<u64, SymbolError> {
    let mut writer = SymbolWriter::default();
    for segment in segments {
        read_into(&mut writer, segment, alive).ok_or(SymbolError::Damaged)?;
    }
    writer.finish(path)
}

fn read_into(writer: &mut SymbolWriter, segment: &SymbolSegment, alive: &dyn Fn(FileNo) -> bool) -> Option<()> {
    let count = segment.file_count() as u32;
    let living: Vec<bool> = (0..count).map(|at| segment.file(at).is_some_and(alive)).collect();
    let lives = |file: u32| living.get(file as usize).copied().unwrap_or(false);
    let mut names: FxHashMap<u32, u32> = FxHashMap::default();
    let mut used: Vec<Vec<u32>> = vec![Vec::new(); living.len()];
    segment.each_name(|name, offset| {
        let posting = segment.posting_at(offset)?;
        let is_used = posting.used_in.iter().any(|file| lives(*file));
        if is_used || posting.definitions.iter().any(|(file, _)| lives(*file)) {
            let id = writer.name_id(name);
            names.insert(u32::try_from(offset).ok()?, id);
            posting.used_in.iter().filter(|file| lives(**file)).for_each(|file| used[*file as usize].push(id));
        }
        Some(())
    })?;
    let mut import_ids: FxHashMap<u32, u32> = FxHashMap::default();
    for (place, used) in used.into_iter().enumerate().filter(|(place, _)| living[*place]) {
        let block = segment.block(place as u32)?;
        let renamed = |stored: Stored| Some(Stored { name: *names.get(&stored.name)?, ..stored });
        let definitions = block.definitions.into_iter().map(renamed).collect::<Option<Vec<Stored>>>()?;
        for at in &block.imports {
            if !import_ids.contains_key(at) {
                import_ids.insert(*at, writer.import_id(&segment.import(*at)?));
            }
        }
        let imports = block.imports.iter().map(|at| import_ids[at]).collect();
        writer.push(segment.file(place as u32)?, definitions, used, imports);
    }
    Some(())
}
