//! How much of the answer is certain?
//!
//! A token can end in the middle of a character, and the end of the text can be the beginning of a stop string. Both
//! are held back until they are decided, so that whatever was sent never has to be taken back.

/// The text of one answer as it grows.
#[derive(Default)]
pub(super) struct Stream {
    stops: Vec<String>,
    text: String,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
    /// How much of `text` was sent.
    sent: usize,
    /// The stop string that appeared.
    stopped: Option<String>,
}

impl Stream {
    pub fn new(stops: Vec<String>) -> Stream {
        Stream { stops, ..Stream::default() }
    }

    /// Adds the bytes of a token and gives the text that became certain.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        if self.stopped() {
            return String::new();
        }
        self.partial.extend_from_slice(bytes);
        let before = self.text.len();
        self.take_complete();
        self.look_for_stop(before);
        let certain = if self.stopped() { self.text.len() } else { self.text.len() - self.may_be_stop() };
        self.send_up_to(certain)
    }

    /// The answer is over: gives what was held back.
    pub fn close(&mut self) -> String {
        if !self.stopped() && !self.partial.is_empty() {
            let before = self.text.len();
            self.text.push('\u{FFFD}');
            self.partial.clear();
            self.look_for_stop(before);
        }
        self.send_up_to(self.text.len())
    }

    /// Whether a stop string appeared.
    pub fn stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// All of the text, without the stop string, and the stop string that ended it.
    pub fn into_text(self) -> (String, Option<String>) {
        (self.text, self.stopped)
    }

    fn send_up_to(&mut self, end: usize) -> String {
        let text = self.text[self.sent.min(end)..end].to_owned();
        self.sent = self.sent.max(end);
        text
    }

    fn take_complete(&mut self) {
        loop {
            match std::str::from_utf8(&self.partial) {
                Ok(text) => {
                    self.text.push_str(text);
                    self.partial.clear();
                    return;
                }
                Err(error) => {
                    let (valid, rest) = self.partial.split_at(error.valid_up_to());
                    self.text.push_str(&String::from_utf8_lossy(valid));
                    // Without a length the rest may still become a character; with one it never will.
                    let Some(wrong) = error.error_len() else {
                        self.partial = rest.to_vec();
                        return;
                    };
                    self.text.push('\u{FFFD}');
                    self.partial = rest[wrong..].to_vec();
                }
            }
        }
    }

    /// Cuts the text at the first stop string that ends in what came after `before`.
    fn look_for_stop(&mut self, before: usize) {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let mut from = before.saturating_sub(longest);
        while !self.text.is_char_boundary(from) {
            from -= 1;
        }
        let found = self.stops.iter().filter_map(|stop| Some((self.text[from..].find(stop.as_str())?, stop)));
        // Of two that begin at one place the first is taken, as it stands in the request.
        if let Some((at, stop)) = found.min_by_key(|(at, _)| *at) {
            self.stopped = Some(stop.clone());
            self.text.truncate(from + at);
        }
    }

    /// Length of the longest end of the text that a stop string begins with.
    fn may_be_stop(&self) -> usize {
        let begins = |stop: &String| {
            let ends = (1..stop.len()).rev().filter(|&n| stop.is_char_boundary(n));
            ends.into_iter().find(|&n| self.text.ends_with(&stop[..n])).unwrap_or(0)
        };
        self.stops.iter().map(begins).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stops: &[&str], pieces: &[&[u8]], sent: &[&str], text: &str, stopped: Option<&str>) {
        let mut stream = Stream::new(stops.iter().map(|s| s.to_string()).collect());
        let mut got: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
        got.push(stream.close());
        assert_eq!(got, sent);
        assert_eq!(stream.stopped(), stopped.is_some());
        assert_eq!(stream.into_text(), (text.to_owned(), stopped.map(str::to_owned)));
    }

    #[test]
    fn a_character_is_sent_when_its_last_byte_has_come() {
        check(&[], &[b"a\xF0\x9F", b"\x98", b"\x80b"], &["a", "", "😀b", ""], "a😀b", None);
    }

    #[test]
    fn bytes_that_never_become_a_character_are_replaced() {
        check(&[], &[b"a\xFFb", b"\xE2\x82", b"c"], &["a\u{FFFD}b", "", "\u{FFFD}c", ""], "a\u{FFFD}b\u{FFFD}c", None);
        check(&[], &[b"a\xE2\x82"], &["a", "\u{FFFD}"], "a\u{FFFD}", None);
    }

    #[test]
    fn a_stop_string_over_token_boundaries_is_found_and_never_sent() {
        check(&["</end>"], &[b"text<", b"/e", b"nd>more", b"x"], &["text", "", "", "", ""], "text", Some("</end>"));
    }

    #[test]
    fn what_only_looked_like_a_stop_string_is_sent_late() {
        check(&["</end>"], &[b"a</e", b"m>"], &["a", "</em>", ""], "a</em>", None);
        check(&["ab", "bcd"], &[b"xb", b"c", b"!"], &["x", "", "bc!", ""], "xbc!", None);
        check(&["ab"], &[b"xa"], &["x", "a"], "xa", None);
    }

    #[test]
    fn the_earliest_of_several_stop_strings_cuts() {
        check(&["two", "one"], &[b"0 one two"], &["0 ", ""], "0 ", Some("one"));
        check(&["é!"], &["aé".as_bytes(), b"!"], &["a", "", ""], "a", Some("é!"));
    }
}
