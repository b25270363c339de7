//! Does an answer keep to its grammar token by token, and does nobody wait for one that is slow?

use super::*;
use crate::api::Bytes;
use crate::grammar::{CallShape, Grammars, Shape, ToolShape};
use serde_json::json;

fn call_shape(required: bool, several: bool) -> Shape {
    let arguments = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 4, "maximum": 4}},
        "required": ["n"], "additionalProperties": false});
    let tool = ToolShape { name: "f".into(), path: "tools".into(), arguments: Some(arguments) };
    Shape { answer: None, calls: Some(CallShape { tools: vec![tool], required, several }) }
}

/// An answer under way, and the thread that works for it.
struct Answer {
    held: Held,
    masker: Masker,
    text: String,
    over: bool,
}

impl Answer {
    fn new(shape: Shape, forces: bool) -> Answer {
        let grammar = Arc::new(Grammars::new(Bytes).compile(shape).unwrap());
        Answer { held: Held::new(grammar, forces), masker: Masker::default(), text: String::new(), over: false }
    }

    fn next(&mut self) -> Next {
        self.held.ask(&mut self.masker);
        self.held.next(Duration::from_secs(5))
    }

    fn take(&mut self, token: u32) {
        let bytes = if token == Bytes::END { "" } else { &char::from(token as u8).to_string() };
        self.text.push_str(bytes);
        self.over = self.held.take(token, bytes.as_bytes());
    }

    /// Lets a model speak that wants to say this, and says what it must where that is not allowed. The number of tokens
    /// that were chosen by it.
    fn wants(&mut self, text: &str) -> usize {
        let (mut chosen, before) = (0, self.text.len());
        while let Some(&wanted) = text.as_bytes().get(self.text.len() - before) {
            match self.next() {
                Next::Free => self.take(u32::from(wanted)),
                Next::Among(mask) => {
                    // The last of the others: white space, which is always allowed somewhere, comes first.
                    let other = (0..257).rev().find(|&id| mask.is_allowed(id)).unwrap();
                    self.take(if mask.is_allowed(u32::from(wanted)) { u32::from(wanted) } else { other });
                }
                Next::Forced(tokens) => {
                    let (last, first) = tokens.split_last().unwrap();
                    self.text.extend(first.iter().map(|&token| char::from(token as u8)));
                    self.take(*last);
                }
                Next::Late | Next::Failed(_) => panic!("the mask did not come"),
            }
            chosen += 1;
            if self.over {
                break;
            }
        }
        chosen
    }
}

const CALL: &str = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\":4}}\n</tool_call>";

#[test]
fn a_call_that_was_begun_is_held_and_words_before_and_behind_it_are_free() {
    let mut answer = Answer::new(call_shape(false, true), false);
    answer.wants("Words, and <tool_cal no call. <tool_call>");
    answer.wants(&"x".repeat(CALL.len() - "<tool_call>".len()));
    let call = answer.text.split_once("no call. ").unwrap().1.to_owned();
    let (said, calls) = crate::api::toolcall::parse(&call, &["f".to_owned()]);
    assert_eq!((said, calls.len(), calls[0].arguments["n"].as_i64()), ("", 1, Some(4)), "{call}");
    assert!(matches!(answer.next(), Next::Free) && !answer.over);
    answer.wants("\nfree again");
    assert!(answer.text.ends_with("</tool_call>\nfree again"), "{}", answer.text);
}

#[test]
fn where_one_call_is_allowed_the_answer_is_over_behind_it() {
    for (required, before) in [(false, "<tool_call>"), (true, "")] {
        let mut answer = Answer::new(call_shape(required, false), false);
        answer.wants(before);
        answer.wants(&"x".repeat(500));
        assert!(answer.over && answer.text.ends_with("</tool_call>"), "{}", answer.text);
    }
}

#[test]
fn what_has_no_alternative_is_not_asked_for_token_by_token() {
    let mut each = Answer::new(call_shape(true, false), false);
    let mut forced = Answer::new(call_shape(true, false), true);
    let want = CALL.to_owned() + &"x".repeat(500);
    let (steps, steps_forced) = (each.wants(&want), forced.wants(&want));
    assert_eq!(crate::api::toolcall::parse(&forced.text, &["f".to_owned()]).1.len(), 1, "{}", forced.text);
    println!("{steps} steps, {steps_forced} with what is forced");
    assert!(steps_forced * 2 < steps, "{steps_forced} of {steps}");
}

#[test]
fn a_mask_that_is_not_there_is_late_and_comes_later() {
    let mut answer = Answer::new(call_shape(true, false), false);
    // A thread that is busy with another answer: nobody works on this one.
    let (queue, works) = channel::<Work>();
    answer.masker.queue = Some(queue);
    answer.held.ask(&mut answer.masker);
    assert!(matches!(answer.held.next(Duration::ZERO), Next::Late));
    answer.held.ask(&mut answer.masker);
    assert!(matches!(answer.held.next(Duration::from_millis(1)), Next::Late));
    let mut waiting: Vec<Work> = works.try_iter().collect();
    assert_eq!(waiting.len(), 1, "it was asked for once");
    work_out(waiting.pop().unwrap());
    assert!(matches!(answer.held.next(Duration::ZERO), Next::Among(_)));
    // The same again for an answer that was put off behind its mask.
    assert!(matches!(answer.held.next(Duration::ZERO), Next::Among(_)));
}

#[test]
fn an_answer_whose_mask_never_comes_fails_and_says_so() {
    let mut answer = Answer::new(call_shape(true, false), false);
    let (queue, works) = channel::<Work>();
    answer.masker.queue = Some(queue);
    answer.held.ask(&mut answer.masker);
    drop(works);
    assert!(matches!(answer.held.next(Duration::ZERO), Next::Failed(_)));
}
