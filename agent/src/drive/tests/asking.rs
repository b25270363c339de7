//! What a person is asked, and what an answer permits.

use super::*;
use crate::ask::granted;
use crate::gate::Action;
use proptest::prelude::*;

const LIST: &str = "{\"name\": \"list_dir\", \"arguments\": {\"path\": \".\"}}";
/// Asks before every edit.
const ASKING: &str = "version = 1\n[[tool]]\nid = 'ask-edits'\nverdict = 'ask'\ntools = ['edit_file']\nwhy = 'edits need consent'\nmatch = ['edit_file']\n";

fn stage<'s>(replies: &'s [&'static str], answering: Answering) -> Stage<'s> {
    let mut stage = Stage::new(&[("code.py", CODE)], replies);
    stage.policy = Policy::shipped().unwrap().tightened("project.toml", ASKING).unwrap();
    stage.mode = Mode::Ask;
    stage.answering = answering;
    stage
}

fn answered(record: &Record) -> Option<Answer> {
    if let Record::Answered { answer, .. } = record { Some(*answer) } else { None }
}

#[test]
fn what_a_person_grants_for_the_session_is_asked_once() {
    let played = stage(&[READ, WORSE, READ, FIX], Answering::Somebody(vec![Answer::YesForSession])).play();
    assert_eq!(played.finished.ending, Ending::Verified);
    assert_eq!(played.questions.len(), 1);
    let question = &played.questions[0];
    assert_eq!(question.action, Action::EditFile { path: "code.py".into() });
    assert!(question.shown.contains("edit_file code.py\ndef f():\n    return 'worse'"), "{}", question.shown);
    assert_eq!(question.rule.as_deref(), Some("ask-edits"));
    assert_eq!(granted(&played.records), [question]);
}

#[test]
fn a_yes_is_good_for_one_time() {
    let played = stage(&[READ, WORSE, READ, FIX], Answering::Somebody(vec![Answer::Yes, Answer::No])).play();
    assert_eq!(played.questions.len(), 2);
    assert_eq!(played.now, CODE);
    assert!(last_said(&played).contains("a person was asked and said no"), "{}", last_said(&played));
    assert!(granted(&played.records).is_empty());
}

#[test]
fn silence_is_a_no() {
    let played = stage(&[READ, FIX], Answering::Somebody(Vec::new())).play();
    assert_eq!(played.now, CODE);
    assert!(last_said(&played).contains("did not answer in time"), "{}", last_said(&played));
    assert!(played.records.iter().any(|record| answered(record) == Some(Answer::Silence)), "it is in the log");
}

#[test]
fn a_yes_after_the_deadline_is_a_no() {
    struct Late;
    impl Person for Late {
        fn ask(&mut self, _: &Question, deadline: Instant) -> Answer {
            while Instant::now() <= deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            Answer::YesForSession
        }
    }
    let played = stage(&[READ, FIX], Answering::Another(Box::new(Late), Duration::from_millis(5))).play();
    assert_eq!(played.now, CODE);
    assert!(granted(&played.records).is_empty());
}

#[test]
fn where_nobody_is_a_question_is_a_denial() {
    let played = stage(&[READ, FIX], Answering::Nobody).play();
    assert_eq!(played.now, CODE);
    assert!(last_said(&played).contains("nobody is here to ask"), "{}", last_said(&played));
}

#[test]
fn an_effect_that_was_asked_for_has_question_answer_and_verdict_before_it() {
    let played = stage(&[READ, FIX], Answering::Somebody(vec![Answer::Yes])).play();
    let last = played.kinds.iter().rposition(|kind| kind == "wrote").unwrap();
    assert_eq!(played.kinds[last - 3..=last + 1], ["verdict", "answered", "verdict", "wrote", "observed"]);
    assert_eq!(played.log[last - 1].body["judgement"]["verdict"], "allow");
    assert_eq!(played.log[last - 3].body["judgement"]["verdict"], "ask");
}

fn parked() -> (Played, Question) {
    let played = stage(&[READ, FIX], Answering::Later).play();
    let Ending::Parked { question } = &played.finished.ending else { panic!("{:?}", played.finished.ending) };
    let question = (**question).clone();
    assert_eq!(played.now, CODE, "nothing ran");
    (played, question)
}

fn resumed(mut records: Vec<Record>, answer: Option<(Question, Answer)>, replies: &[&'static str]) -> Played {
    records.extend(answer.map(|(question, answer)| Record::Answered { question, answer }));
    let mut stage = stage(replies, Answering::Later);
    stage.earlier = records;
    stage.play()
}

#[test]
fn a_parked_session_goes_on_with_an_answer() {
    let (played, question) = parked();
    let yes = resumed(played.records, Some((question, Answer::Yes)), &[]);
    assert_eq!(yes.finished.ending, Ending::Verified);
    assert!(yes.asked.is_empty(), "the action that waited is what runs");
}

#[test]
fn a_parked_session_goes_on_without_what_was_refused() {
    let (played, question) = parked();
    let no = resumed(played.records, Some((question, Answer::No)), &[]);
    assert_eq!(no.now, CODE);
    assert!(last_said(&no).contains("said no"), "{}", last_said(&no));
}

#[test]
fn a_parked_session_without_an_answer_parks_again() {
    let (played, question) = parked();
    let again = resumed(played.records, None, &[]);
    assert_eq!(again.finished.ending, Ending::Parked { question: Box::new(question) });
}

#[test]
fn an_answer_to_another_question_permits_nothing() {
    let (played, mut question) = parked();
    question.action = Action::EditFile { path: "other.py".into() };
    let again = resumed(played.records, Some((question, Answer::Yes)), &[]);
    assert!(matches!(again.finished.ending, Ending::Parked { .. }));
}

#[test]
fn a_consent_is_not_good_for_the_action_after_it() {
    let (played, question) = parked();
    // The edit that was consented to helps nobody, so another is proposed.
    let first = stage(&[READ, WORSE], Answering::Later).play();
    let Ending::Parked { question: worse } = first.finished.ending else { panic!("{:?}", first.finished.ending) };
    assert_ne!(*worse, question);
    drop(played);
    let again = resumed(first.records, Some((*worse, Answer::YesForSession)), &[FIX]);
    assert!(matches!(again.finished.ending, Ending::Parked { .. }), "{:?}", again.finished.ending);
}

#[test]
fn a_resumed_session_has_lost_its_grants() {
    let first = stage(&[READ, WORSE, LIST], Answering::Somebody(vec![Answer::YesForSession])).play();
    assert_eq!(granted(&first.records)[0].covers(), "edit_file code.py, whatever is written", "this can be shown");
    let again = resumed(first.records, None, &[FIX]);
    assert!(matches!(again.finished.ending, Ending::Parked { .. }), "it is asked again");
}

/// What can be in a log: one record for each number below [`KINDS`].
fn record(kind: usize) -> Record {
    let answers = [Answer::Yes, Answer::YesForSession, Answer::No, Answer::Silence];
    let other = || Question { action: Action::Finish, ..an_edit() };
    match kind {
        0 => Record::Replied { text: FIX.into(), usage: Usage::default() },
        1 => Record::Replied { text: READ.into(), usage: Usage::default() },
        2 => Record::Refused { why: "no".into(), denied: false },
        3 => Record::Resumed,
        4 => Record::Restored,
        5 => Record::Told { by: "h".into(), text: "t".into() },
        6 => Record::Stopped { ending: Ending::Cancelled },
        // More often than by chance, so that histories get far.
        7..=9 => Record::Stopped { ending: Ending::Parked { question: Box::new(an_edit()) } },
        10..=13 => Record::Answered { question: an_edit(), answer: answers[kind - 10] },
        // What happened to a sub-agent, and its end: a yes that it was given is not its parent's.
        14 => child(Record::Answered { question: an_edit(), answer: Answer::YesForSession }),
        15 => child(Record::Stopped { ending: Ending::Parked { question: Box::new(an_edit()) } }),
        16 => Record::Returned {
            agent_id: "a1".into(),
            agent_type: Default::default(),
            ending: Ending::Unverified,
            costs: Vec::new(),
            spent: Default::default(),
        },
        _ => Record::Answered { question: other(), answer: answers[kind % 4] },
    }
}

const KINDS: usize = 21;

fn child(happened: Record) -> Record {
    Record::Child { agent_id: "a1".into(), happened: Box::new(happened) }
}

fn an_edit() -> Question {
    Question {
        action: Action::EditFile { path: "code.py".into() },
        shown: "edit_file code.py".into(),
        layer: crate::gate::Layer::Tools,
        rule: None,
        reason: String::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Whatever happened before: after a resume nothing is permitted but the action that was parked last, and that only
    /// when a person has said yes to exactly its question since, and nothing else has happened since.
    #[test]
    fn no_history_makes_a_resumed_session_wider(history in proptest::collection::vec(0..KINDS, 0..12)) {
        thread_local!(static PROFILE: Profile = Profile::for_model("script"));
        let mut session = Session::new(PROFILE.with(Clone::clone));
        // The first answer to the question that waits; `None` outside: no question waits.
        let mut waits: Option<Option<Answer>> = None;
        for record in history.into_iter().map(record) {
            waits = match &record {
                Record::Stopped { ending } => match (session.step(), ending) {
                    (Step::Act(_), Ending::Parked { .. }) => Some(None),
                    (Step::End(_), _) => waits,
                    _ => None,
                },
                Record::Answered { question, answer } if *question == an_edit() => {
                    waits.map(|given| given.or(Some(*answer)))
                }
                Record::Answered { .. } | Record::Told { .. } => waits,
                _ => None,
            };
            session.apply(&record);
        }
        session.apply(&Record::Resumed);
        let permitted = waits.flatten().is_some_and(Answer::is_yes);
        let expected = permitted.then(an_edit);
        prop_assert_eq!(session.consent(), expected.as_ref());
        session.apply(&Record::Restored);
        prop_assert_eq!(session.consent(), None);
    }
}
