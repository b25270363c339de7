//! How are numbers kept small on disk, and texts after their length? LEB128: seven bits a byte, lowest first, the high
//! bit set on all but the last.

/// Appends `number`.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front; nothing where the bytes end in the middle of one, or it does not fit 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        number |= part.checked_shl(7 * at as u32).filter(|shifted| shifted >> (7 * at) == part)?;
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(number);
        }
    }
    None
}

/// Appends a text as its length in bytes and its bytes.
pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

/// Takes what [`put_text`] appended; nothing where it is cut or not UTF-8.
pub(crate) fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Appends ascending numbers as their count and their differences.
pub(crate) fn put_ascending(bytes: &mut Vec<u8>, numbers: &[u32]) {
    put(bytes, numbers.len() as u64);
    let mut last = 0;
    for &number in numbers {
        debug_assert!(number >= last, "numbers ascend");
        put(bytes, u64::from(number - last));
        last = number;
    }
}

/// Takes what [`put_ascending`] appended.
pub(crate) fn take_ascending(bytes: &mut &[u8]) -> Option<Vec<u32>> {
    let count = take(bytes)?;
    // Every number takes a byte at least: a wrong count asks for no more memory than there is.
    if count > bytes.len() as u64 {
        return None;
    }
    let mut last = 0u64;
    (0..count)
        .map(|_| {
            last = last.checked_add(take(bytes)?)?;
            u32::try_from(last).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_is_taken(numbers in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut bytes = Vec::new();
            numbers.iter().for_each(|number| put(&mut bytes, *number));
            let mut rest = bytes.as_slice();
            for number in numbers {
                prop_assert_eq!(take(&mut rest), Some(number));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn an_ascending_list_comes_back(mut numbers in proptest::collection::vec(any::<u32>(), 0..50)) {
            numbers.sort_unstable();
            let mut bytes = Vec::new();
            put_ascending(&mut bytes, &numbers);
            prop_assert_eq!(take_ascending(&mut bytes.as_slice()), Some(numbers));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = take(&mut bytes.as_slice());
            let _ = take_ascending(&mut bytes.as_slice());
        }
    }
}
