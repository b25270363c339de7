//! What is left of a conversation that the model can no longer read whole?
//!
//! The instructions, the task and the newest half of the turns stay word for word, so that what the model has computed
//! for the beginning is still good; of each older turn one line stays, which says what was done. Nothing is summed up
//! by a model: a summary of its own would be taken for something that was seen.

use super::{Session, words};
use crate::action;
use crate::model::{Message, Role};

/// The instructions and the task.
const HEAD_MESSAGES: usize = 2;

impl Session {
    /// Is there a turn that could be left out?
    pub fn can_compact(&self) -> bool {
        self.turns().next().is_some()
    }

    /// Where the turns begin: the replies of the model.
    fn turns(&self) -> impl DoubleEndedIterator<Item = usize> {
        let is_turn = |(_, message): &(usize, &Message)| message.role == Role::Assistant;
        self.messages.iter().enumerate().skip(HEAD_MESSAGES).filter(is_turn).map(|(at, _)| at)
    }

    pub(super) fn compacted(&mut self) {
        let turns: Vec<usize> = self.turns().collect();
        let kept = turns.len() / 2;
        let cut = if kept == 0 { self.messages.len() } else { turns[turns.len() - kept] };
        let Some(dropped) = self.messages.get(HEAD_MESSAGES..cut).filter(|dropped| !dropped.is_empty()) else { return };
        let replies = dropped.iter().filter(|message| message.role == Role::Assistant);
        let done: Vec<String> =
            replies.filter_map(|reply| action::parse(&reply.content).ok()).map(|call| words::did(&call)).collect();
        self.messages.drain(HEAD_MESSAGES..cut);
        self.messages[HEAD_MESSAGES - 1].content += &words::shortened(&done);
        if self.checkpoint > 0 {
            self.checkpoint = (self.checkpoint + HEAD_MESSAGES).saturating_sub(cut).max(HEAD_MESSAGES);
        }
        // What no longer stands there may be looked at again, and must be before it is edited.
        self.seen.clear();
        let messages = &self.messages[HEAD_MESSAGES..];
        self.recent.retain(|path| messages.iter().any(|message| message.content.contains(path.as_str())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Usage;
    use crate::profile::Profile;
    use crate::session::{Files, Record, Step};

    fn open() -> Session {
        let mut session = Session::new(Profile::for_model("m"));
        session.apply(&Record::Opened {
            task: "mend it".into(),
            files: vec!["a.py".into()],
            memory: None,
            tests: None,
            called: Vec::new(),
            named: Vec::new(),
        });
        session
    }

    fn look(session: &mut Session, path: &str) {
        let text = format!("{{\"name\": \"read_file\", \"arguments\": {{\"path\": \"{path}\"}}}}");
        session.apply(&Record::Replied { text, usage: Usage::default() });
        session.apply(&Record::Observed {
            text: format!("{path}, lines 1 to 2 of 2:\n..."),
            writes: Files::new(),
            shown: vec![path.into()],
            functions: Vec::new(),
            lines: Vec::new(),
        });
    }

    #[test]
    fn the_newest_half_stays_and_the_rest_is_one_line_each() {
        let mut session = open();
        for path in ["a.py", "b.py", "c.py", "d.py"] {
            look(&mut session, path);
        }
        let (head, tail) = (session.messages()[1].content.clone(), session.messages()[6..].to_vec());
        session.apply(&Record::Compacted);
        let messages = session.messages();
        assert!(messages[1].content.starts_with(&head), "the beginning is still a prefix");
        assert!(messages[1].content.contains("read_file a.py\n") && messages[1].content.contains("read_file b.py\n"));
        assert_eq!(messages[2..], tail);
        assert_eq!(session.recent(), ["d.py", "c.py"]);
        assert!(matches!(session.step(), Step::Ask(_)));
    }

    #[test]
    fn what_was_left_out_may_be_looked_at_again() {
        let mut session = open();
        look(&mut session, "a.py");
        session.apply(&Record::Compacted);
        assert_eq!(session.messages().len(), HEAD_MESSAGES);
        assert!(!session.can_compact(), "nothing is left to leave out");
        look(&mut session, "a.py");
        assert_eq!(session.recent(), ["a.py"]);
    }
}
