//! What do the harness and the two programs of a warm box say to each other?
//!
//! To the init goes one [`Order`] per job: its length, its bytes, and with the first of them the job's three streams. Back
//! comes one [`Answer`] of fixed size (and [`Answer::READY`] before the first), and nothing else: output runs through the streams, which the harness made itself. The
//! keeper gets requests of fixed size and answers with a line. This file is part of both sides.

/// Most bytes of one order; arguments and environment have a smaller limit of their own.
pub const ORDER_BYTES_MAX: usize = 1 << 20;
/// Most bytes of one line of the keeper.
pub const LINE_BYTES_MAX: usize = 512;
/// Standard input, output and error of a job.
pub const STREAMS: usize = 3;

/// One job for the init.
#[derive(Debug, PartialEq, Eq)]
pub struct Order {
    /// Comes back in the answer.
    pub number: u32,
    /// Absolute, inside the box.
    pub cwd: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// `NAME=value`, the whole environment.
    pub env: Vec<String>,
}

impl Order {
    /// Number, count of arguments, then the strings, each ended by a NUL byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.number.to_le_bytes());
        bytes.extend((self.argv.len() as u32).to_le_bytes());
        for word in std::iter::once(&self.cwd).chain(&self.argv).chain(&self.env) {
            bytes.extend(word.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    /// `None` when these are not the bytes of an order.
    pub fn decode(bytes: &[u8]) -> Option<Order> {
        let (number, rest) = bytes.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let text = std::str::from_utf8(rest.strip_suffix(b"\0")?).ok()?;
        let mut words = text.split('\0').map(str::to_owned);
        let cwd = words.next()?;
        let count = u32::from_le_bytes(*count) as usize;
        let argv: Vec<String> = words.by_ref().take(count).collect();
        let whole = count > 0 && argv.len() == count;
        whole.then(|| Order { number: u32::from_le_bytes(*number), cwd, argv, env: words.collect() })
    }
}

/// What the init says when a job and all that it started is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The number of the order.
    pub number: u32,
    /// The job's exit code as a shell tells it: 128 + n for signal n, 127 no such program, 126 not a program.
    pub code: u8,
}

impl Answer {
    pub const BYTES: usize = 5;
    /// Comes first: the runtime may say that it is done while it is still on its way to become the init.
    pub const READY: Answer = Answer { number: 0, code: 0 };

    pub fn encode(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.number.to_le_bytes();
        [a, b, c, d, self.code]
    }

    pub fn decode([a, b, c, d, code]: [u8; Self::BYTES]) -> Answer {
        Answer { number: u32::from_le_bytes([a, b, c, d]), code }
    }
}

/// Most frozen layers under one box.
pub const LAYERS_MAX: usize = 16;
/// Stands where there is no further layer.
pub const NO_LAYER: u32 = u32::MAX;

/// What the keeper is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// An overlay on the workspace with these frozen layers, topmost first, an empty /tmp, /dev/shm and home of at most so
    /// many bytes each.
    Mount { tmp_bytes_max: u64, stack: [u32; LAYERS_MAX] },
    /// All of that away again, and a look whether the job left anything in the box's kernel objects.
    Unmount,
}

impl Request {
    pub const BYTES: usize = 1 + 8 + 4 * LAYERS_MAX;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let (kind, size, stack) = match self {
            Request::Mount { tmp_bytes_max, stack } => (b'm', tmp_bytes_max, stack),
            Request::Unmount => (b'u', 0, [NO_LAYER; LAYERS_MAX]),
        };
        let mut bytes = [kind; Self::BYTES];
        bytes[1..9].copy_from_slice(&size.to_le_bytes());
        for (place, number) in bytes[9..].chunks_exact_mut(4).zip(stack) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    pub fn decode(bytes: [u8; Self::BYTES]) -> Option<Request> {
        let (kind, rest) = bytes.split_first()?;
        let (size, numbers) = rest.split_first_chunk::<8>()?;
        let mut stack = [NO_LAYER; LAYERS_MAX];
        for (number, bytes) in stack.iter_mut().zip(numbers.chunks_exact(4)) {
            *number = u32::from_le_bytes(bytes.try_into().ok()?);
        }
        match kind {
            b'm' => Some(Request::Mount { tmp_bytes_max: u64::from_le_bytes(*size), stack }),
            b'u' => Some(Request::Unmount),
            _ => None,
        }
    }
}

/// The keeper's line when all went well; any other line says what did not.
pub const WELL: &str = "well";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_comes_over_as_it_was_given() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (argv, env) in [(words(&["a"]), words(&[])), (words(&["", "a b", "\n"]), words(&["A=", "B=1 2"]))] {
            let order = Order { number: 7, cwd: "/workspace".into(), argv, env };
            assert_eq!(Order::decode(&order.encode()), Some(order));
        }
    }

    #[test]
    fn bytes_that_are_no_order_or_request_are_refused_and_answers_are_numbers_whatever_they_say() {
        let whole = Order { number: 1, cwd: "/".into(), argv: vec!["a".into(), "b".into()], env: vec![] }.encode();
        for length in 0..whole.len() {
            assert_eq!(Order::decode(&whole[..length]), None, "{length}");
        }
        let mut greedy = whole.clone();
        greedy[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Order::decode(&greedy), None);
        assert_eq!(Order::decode(&[0xff; 64]), None);
        assert_eq!(Request::decode([0xff; Request::BYTES]), None);
        let stack = std::array::from_fn(|number| number as u32 * 0x0102_0304);
        for request in [Request::Mount { tmp_bytes_max: u64::MAX, stack }, Request::Unmount] {
            assert_eq!(Request::decode(request.encode()), Some(request));
        }
        assert_eq!(Answer::decode([0xff; Answer::BYTES]), Answer { number: u32::MAX, code: 255 });
    }
}
