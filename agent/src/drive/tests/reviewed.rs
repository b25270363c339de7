//! What a second model's word leads to.

use super::*;
use crate::verify::{Mark, SECOND_REVIEW};

const APPROVE: &str = "{\"reasons\": [\"it does the task\"], \"verdict\": \"approve\"}";
const REJECT: &str = "{\"reasons\": [\"it also changes g\"], \"verdict\": \"reject\"}";
const RIGHT: &str = "edit_file code.py\n```python\ndef f():\n    x = 'right'\n    return x\n```";

fn reviewed(replies: &[&'static str], says: &[&'static str]) -> Played {
    let mut stage = Stage::new(&[("code.py", CODE)], replies);
    let usage = Usage { prompt_tokens: 30, generated_tokens: 3, ..Usage::default() };
    stage.reviewer = Some(Script { replies: says.to_vec(), asked: Vec::new(), context_bytes_max: usize::MAX, usage });
    stage.play()
}

/// How the last rung ended and what it says.
fn last_rung(played: &Played) -> (Mark, &str) {
    let rung = played.finished.report.as_ref().and_then(|report| report.rungs.last()).expect("a rung");
    assert_eq!(rung.name, SECOND_REVIEW);
    (rung.mark, &rung.detail)
}

#[test]
fn an_approval_is_the_last_rung_and_its_cost_is_on_the_sheet() {
    let played = reviewed(&[READ, FIX], &[APPROVE]);
    assert_eq!(played.finished.ending, Ending::Verified);
    assert_eq!(last_rung(&played).0, Mark::Passed);
    assert_eq!(played.session.costs().last().map(|usage| usage.prompt_tokens), Some(30));
    let asked = &played.reviews[0].messages[1].content;
    assert!(asked.starts_with("Task:\n```\nmake it right\n```") && asked.contains("+    return 'right'"), "{asked}");
    assert!(!asked.contains("I look"), "nothing of the conversation");
}

#[test]
fn reasons_for_a_rejection_are_told_once_and_the_next_rejection_ends_the_session() {
    let played = reviewed(&[READ, FIX, RIGHT], &[REJECT, APPROVE]);
    assert_eq!(played.finished.ending, Ending::Verified);
    let told = &played.asked[2].messages.last().unwrap().content;
    assert!(
        told.contains(
            "second review: script (which has the name of the model that made the change) rejects: it also changes g"
        ),
        "{told}"
    );
    let played = reviewed(&[READ, FIX, RIGHT, FINISH], &[REJECT, REJECT, APPROVE]);
    let rejected = Ending::Rejected { by: "script".into(), why: "it also changes g".into() };
    assert_eq!(played.finished.ending, rejected);
    assert_eq!(played.reviews.len(), 2);
    assert!(!played.finished.report.unwrap().passed());
}

#[test]
fn a_review_that_does_not_come_proves_nothing_and_says_so() {
    for says in [&["!"][..], &["I like it"], &[]] {
        let played = reviewed(&[READ, FIX], says);
        assert_eq!((played.finished.ending.name(), last_rung(&played).0), ("unverified", Mark::Unknown), "{says:?}");
        assert!(last_rung(&played).1.contains("has not answered"));
    }
}

#[test]
fn a_change_that_failed_below_is_not_shown_to_anybody() {
    let played = reviewed(&[FINISH], &[APPROVE]);
    assert!(played.reviews.is_empty() && !played.finished.report.unwrap().passed());
}

#[test]
fn the_model_that_made_the_change_may_review_it_and_the_report_says_that_it_did() {
    let mut stage = Stage::new(&[("code.py", CODE)], &[READ, FIX, APPROVE]);
    stage.reviewed_by_author = true;
    let played = stage.play();
    assert_eq!(played.finished.ending, Ending::Verified);
    assert!(last_rung(&played).1.starts_with("script (the model that made the change) approves"));
    assert_eq!(played.asked[2].messages.len(), 2, "without its conversation");
}

#[test]
fn without_a_reviewer_there_is_no_such_rung() {
    let report = play(&[("code.py", CODE)], &[READ, FIX]).finished.report.unwrap();
    assert!(report.opinion.is_none() && report.rungs.iter().all(|rung| rung.name != SECOND_REVIEW));
}
