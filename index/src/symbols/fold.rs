//! How is a name found whatever the case of its letters? By an automaton over the sorted names: no second dictionary.

use fst::Automaton;

/// Accepts a name but for the case of its ASCII letters.
pub(super) struct Folded<'a>(&'a [u8]);

impl<'a> Folded<'a> {
    pub(super) fn new(name: &'a str) -> Folded<'a> {
        Folded(name.as_bytes())
    }
}

impl Automaton for Folded<'_> {
    /// How many bytes fit, or nothing when one did not.
    type State = Option<usize>;

    fn start(&self) -> Option<usize> {
        Some(0)
    }

    fn is_match(&self, state: &Option<usize>) -> bool {
        *state == Some(self.0.len())
    }

    fn can_match(&self, state: &Option<usize>) -> bool {
        state.is_some()
    }

    fn accept(&self, state: &Option<usize>, byte: u8) -> Option<usize> {
        let at = (*state)?;
        self.0.get(at).filter(|wanted| wanted.eq_ignore_ascii_case(&byte)).map(|_| at + 1)
    }
}
