//! Into which pages is a file cut, and which trigrams are on one?

use super::Trigram;
use crate::admit::FILE_BYTES_MAX;

/// A page ends with the first line that ends after this many bytes. Smaller pages tell large files apart better and
/// cost more lists: of 459 MB of crates the lists take 0.055 of the source where a file is one page, 0.062 with 64 KiB,
/// 0.085 with 16 KiB, 0.109 with 8 KiB and 0.145 with 4 KiB.
pub(super) const PAGE_BYTES: usize = 16 * 1024;
/// A larger file is one page. Its pages would cost much and spare little: of 24 generated parsers and dictionaries
/// (286 MB) the lists take 12.2 MB with 16 KiB, 5.8 with 64 KiB, 2.8 with 256 KiB, 1.3 with 1 MiB and 0.5 where a file
/// is one page, and a pattern then has half a file more to read.
const PAGED_BYTES_MAX: usize = FILE_BYTES_MAX as usize;
/// A page with more different trigrams is no text; the file is searched always.
pub(super) const PAGE_TRIGRAMS_MAX: usize = 1 << 20;

const WORD_BITS: usize = u64::BITS as usize;

/// The pages of a file. They end at line ends, so that every line lies on one page.
pub(super) fn pages(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let page_bytes = if rest.len() > PAGED_BYTES_MAX { rest.len() } else { PAGE_BYTES };
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let line_end = |tail: &[u8]| tail.iter().position(|&byte| byte == b'\n').map(|at| page_bytes + at + 1);
        let cut = rest.get(page_bytes..).and_then(line_end).unwrap_or(rest.len());
        let (page, after) = rest.split_at(cut);
        rest = after;
        Some(page)
    })
}

/// Finds the different trigrams of one page after the other.
pub(super) struct Extractor {
    /// One bit a trigram.
    seen: Vec<u64>,
    found: Vec<Trigram>,
}

impl Extractor {
    pub(super) fn new() -> Extractor {
        Extractor { seen: vec![0; (1 << 24) / WORD_BITS], found: Vec::new() }
    }

    /// In no order; nothing where there are too many.
    pub(super) fn trigrams(&mut self, page: &[u8]) -> Option<&[Trigram]> {
        for &trigram in &self.found {
            self.seen[trigram as usize / WORD_BITS] = 0;
        }
        self.found.clear();
        let (mut trigram, mut of_line) = (0, 0);
        for &byte in page {
            if byte == b'\n' {
                of_line = 0;
                continue;
            }
            trigram = (trigram << 8 | Trigram::from(byte.to_ascii_lowercase())) & 0xff_ffff;
            of_line += 1;
            if of_line < 3 {
                continue;
            }
            let (word, bit) = (&mut self.seen[trigram as usize / WORD_BITS], 1 << (trigram as usize % WORD_BITS));
            if *word & bit == 0 {
                *word |= bit;
                self.found.push(trigram);
            }
        }
        (self.found.len() <= PAGE_TRIGRAMS_MAX).then_some(self.found.as_slice())
    }
}
