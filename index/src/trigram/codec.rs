//! How is a list of pages written?
//!
//! The first byte says how. Below 32 it is the parameter of a Rice code: of every gap the low bits as they are and
//! the rest in unary, lowest bit first, a gap being the pages left out since the one before. 255 is a bitmap, for
//! trigrams that are nearly everywhere. Measured with pages of 16 KiB (lists / source): varints 0.139, varints or
//! bitmaps 0.104, this 0.085, interpolative coding 0.070 and slower to read (Golomb, "Run-length encodings", 1966; Rice,
//! JPL 79-22, 1979).

const BITMAP: u8 = 255;
const PARAMETER_MAX: u32 = 31;
/// How far below the parameter for evenly strewn pages the best one is looked for: near pages are alike.
const PARAMETERS_TRIED: u32 = 5;

/// Appends a list of ascending pages, all of them below `pages`.
pub(super) fn encode(list: &[u32], pages: u32, out: &mut Vec<u8>) {
    let (parameter, bits) = best_parameter(list, pages);
    if bits >= u64::from(pages) {
        out.push(BITMAP);
        let start = out.len();
        out.resize(start + (pages as usize).div_ceil(8), 0);
        list.iter().for_each(|&page| out[start + page as usize / 8] |= 1 << (page % 8));
        return;
    }
    out.push(parameter as u8);
    let (mut word, mut filled) = (0u64, 0u32);
    let mut put = |mut value: u64, mut count: u32| {
        // Never more than 32 bits at a time, and after it fewer than 8 left: they fit.
        while count > 0 {
            let part = count.min(32);
            word |= (value & ((1 << part) - 1)) << filled;
            filled += part;
            while filled >= 8 {
                out.push(word as u8);
                word >>= 8;
                filled -= 8;
            }
            value >>= part;
            count -= part;
        }
    };
    for gap in gaps(list) {
        let mut unary = gap >> parameter;
        while unary >= 32 {
            put(0, 32);
            unary -= 32;
        }
        put(1 << unary, unary + 1);
        put(u64::from(gap), parameter);
    }
    put(0, 7);
}

fn gaps(list: &[u32]) -> impl Iterator<Item = u32> {
    let mut next = 0;
    list.iter().map(move |&page| {
        let gap = page - next;
        next = page + 1;
        gap
    })
}

/// The parameter, and how many bits the list takes with it.
fn best_parameter(list: &[u32], pages: u32) -> (u32, u64) {
    let even = (u64::from(pages) * 7 / 10 / (list.len() as u64).max(1)).max(1).ilog2().min(PARAMETER_MAX);
    let bits =
        |parameter: u32| -> u64 { gaps(list).map(|gap| u64::from(gap >> parameter) + 1 + u64::from(parameter)).sum() };
    let tried = even.saturating_sub(PARAMETERS_TRIED)..=even;
    tried.map(|parameter| (parameter, bits(parameter))).min_by_key(|(_, bits)| *bits).unwrap_or((0, 0))
}

/// The list of `count` pages in these bytes; nothing where they do not hold such a list.
pub(super) fn decode(bytes: &[u8], count: u32, pages: u32) -> Option<Vec<u32>> {
    let (&how, bytes) = bytes.split_first()?;
    // A page takes a bit at least: a wrong count asks for no more memory than there is.
    if count as usize > bytes.len().saturating_mul(8) {
        return None;
    }
    let mut list = Vec::with_capacity(count as usize);
    if how == BITMAP {
        for (at, &byte) in bytes.iter().enumerate() {
            let mut left = byte;
            while left != 0 {
                list.push(at as u32 * 8 + left.trailing_zeros());
                left &= left - 1;
            }
        }
        return (list.len() == count as usize && list.last().is_none_or(|last| *last < pages)).then_some(list);
    }
    let parameter = u32::from(how);
    if parameter > PARAMETER_MAX {
        return None;
    }
    let mut bits = Bits { bytes, at: 0 };
    let mut next = 0u64;
    for _ in 0..count {
        // Never overflows: of at most 2^32 skipped groups of 2^31 pages.
        let group = u32::try_from(bits.unary()?).ok()?;
        let page = next + (u64::from(group) << parameter) + bits.take(parameter)?;
        if page >= u64::from(pages) {
            return None;
        }
        list.push(page as u32);
        next = page + 1;
    }
    Some(list)
}

/// Keeps of `kept` what is in the list as well.
pub(super) fn intersect(bytes: &[u8], count: u32, pages: u32, kept: &mut Vec<u32>) -> Option<()> {
    if let Some((&BITMAP, bits)) = bytes.split_first() {
        kept.retain(|&page| bits.get(page as usize / 8).is_some_and(|byte| byte & (1 << (page % 8)) != 0));
        return Some(());
    }
    let list = decode(bytes, count, pages)?;
    intersect_lists(&list, kept);
    Some(())
}

/// Keeps of `kept` what is in `list` as well; both ascend.
pub(super) fn intersect_lists(list: &[u32], kept: &mut Vec<u32>) {
    let mut rest = list;
    kept.retain(|page| {
        let skip = rest.iter().position(|other| other >= page).unwrap_or(rest.len());
        rest = &rest[skip..];
        rest.first() == Some(page)
    });
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// At least the next 57 bits; zeros after the end.
    fn word(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(whole) => u64::from_le_bytes(*whole),
            None => {
                let mut part = [0; 8];
                part[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(part)
            }
        };
        word >> (self.at % 8)
    }

    /// How many zeros stand before the next one. Bounded by the number of bits there are.
    fn unary(&mut self) -> Option<u64> {
        let start = self.at;
        while self.at < self.bytes.len() * 8 {
            let zeros = self.word().trailing_zeros() as usize;
            if zeros < 57 {
                self.at += zeros + 1;
                return (self.at <= self.bytes.len() * 8).then_some((self.at - 1 - start) as u64);
            }
            self.at += 57;
        }
        None
    }

    fn take(&mut self, count: u32) -> Option<u64> {
        let value = self.word() & ((1 << count) - 1);
        self.at += count as usize;
        (self.at <= self.bytes.len() * 8).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list() -> impl Strategy<Value = (Vec<u32>, u32)> {
        (1u32..3000, 1u32..200).prop_flat_map(|(pages, gap_max)| {
            proptest::collection::vec(0..gap_max, 0..300).prop_map(move |gaps| {
                let mut next = 0;
                let all = gaps.into_iter().map(|gap| {
                    let page = next + gap;
                    next = page + 1;
                    page
                });
                (all.take_while(|page| *page < pages).collect(), pages)
            })
        })
    }

    proptest! {
        #[test]
        fn a_list_comes_back((list, pages) in list()) {
            let mut bytes = Vec::new();
            encode(&list, pages, &mut bytes);
            prop_assert_eq!(decode(&bytes, list.len() as u32, pages), Some(list));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            count in 0u32..500,
            pages in any::<u32>(),
        ) {
            if let Some(list) = decode(&bytes, count, pages) {
                prop_assert!(list.is_sorted_by(|left, right| left < right));
            }
        }

        #[test]
        fn an_intersection_keeps_what_both_have((left, pages) in list(), (right, _) in list()) {
            let right: Vec<u32> = right.into_iter().filter(|page| *page < pages).collect();
            let mut bytes = Vec::new();
            encode(&left, pages, &mut bytes);
            let mut kept = right.clone();
            intersect(&bytes, left.len() as u32, pages, &mut kept).unwrap();
            prop_assert_eq!(kept, right.into_iter().filter(|page| left.contains(page)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn far_pages_and_near_ones_take_few_bytes() {
        let mut bytes = Vec::new();
        encode(&[u32::MAX - 1], u32::MAX, &mut bytes);
        assert!(bytes.len() <= 6, "{}", bytes.len());
        assert_eq!(decode(&bytes, 1, u32::MAX), Some(vec![u32::MAX - 1]));
        let all: Vec<u32> = (0..8000).collect();
        bytes.clear();
        encode(&all, 8000, &mut bytes);
        assert!(bytes.len() <= 1001, "{}", bytes.len());
        assert_eq!(decode(&bytes, 8000, 8000), Some(all));
    }
}
