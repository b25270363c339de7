//! May a model put the first hits in order? `cloister search --rerank URL`.
//!
//! It is asked where the scores are close, once, for a list: the numbers of the best pieces. All it can do is change an
//! order, so nothing in the pieces that it reads can do harm.

use agent::http::HttpModel;
use agent::model::{Flow, Message, Model, ModelError, Request, Role, Sampling, complete_within};
use agent::text::sanitize;
use index::{Answer, Hit};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What a model is shown of one piece.
const LINES_SHOWN: usize = 8;
const LINE_BYTES_SHOWN: usize = 120;
const QUESTION_BYTES_MAX: usize = 2_000;
/// Twenty numbers and what stands between them.
const REPLY_TOKENS_MAX: usize = 100;
const CONTEXT_TOKENS: usize = 8_192;

const TASK: &str = "You are given a question about a repository and numbered pieces of its code. Reply with the numbers \
                    of the five pieces that answer the question best, best first, separated by commas, and nothing else.";

/// Orders the first hits by the model behind `url`, if they are close and it answers within `limit`. What was done, or
/// why not, for the person.
pub fn rerank(answer: &mut Answer, question: &str, url: &str, limit: Duration, cancel: &AtomicBool) -> String {
    let mut failure = None;
    let mut model_name = String::new();
    let begun = Instant::now();
    let done = answer.rerank(|hits| {
        let ordered = HttpModel::first_model(url).and_then(|name| {
            model_name.clone_from(&name);
            let mut model = HttpModel::new(url, &name, CONTEXT_TOKENS);
            ask(&mut model, question, hits, limit, cancel)
        });
        ordered.map_err(|error| failure = Some(error)).ok()
    });
    match failure {
        Some(error) => format!("not reranked: {error}"),
        None if done => {
            format!("the first hits are in the order of {model_name} ({:.1} s)", begun.elapsed().as_secs_f64())
        }
        None => "not reranked: the scores tell the first hit from the second".to_owned(),
    }
}

fn ask(
    model: &mut dyn Model,
    question: &str,
    hits: &[Hit],
    limit: Duration,
    cancel: &AtomicBool,
) -> Result<Vec<usize>, ModelError> {
    let question = sanitize(question.as_bytes(), QUESTION_BYTES_MAX).text;
    let asked = format!("Question: {question}\n\n{}", hits.iter().enumerate().map(piece).collect::<String>());
    let request = Request {
        messages: vec![Message::new(Role::System, TASK), Message::new(Role::User, asked)],
        sampling: Sampling::GREEDY,
        tokens_max: REPLY_TOKENS_MAX,
        prefix: String::new(),
    };
    Ok(order(&complete_within(model, &request, limit, &mut |_| Flow::More, cancel)?.text))
}

fn piece((at, hit): (usize, &Hit)) -> String {
    let lines = hit.text.lines().take(LINES_SHOWN).map(|line| sanitize(line.as_bytes(), LINE_BYTES_SHOWN).text + "\n");
    format!("[{}] {} {}\n{}\n", at + 1, hit.path, hit.symbol.as_deref().unwrap_or_default(), lines.collect::<String>())
}

/// The numbers of a reply, from 0; the first line that has any.
fn order(reply: &str) -> Vec<usize> {
    let numbers = |line: &str| {
        let runs = line.split(|c: char| !c.is_ascii_digit()).filter_map(|run| run.parse::<usize>().ok());
        runs.filter_map(|number| number.checked_sub(1)).collect::<Vec<usize>>()
    };
    reply.lines().map(numbers).find(|found| !found.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_reply_are_its_order() {
        assert_eq!(order("3, 1,2"), [2, 0, 1]);
        assert_eq!(order("The best are:\n[4], [0] and [7]\n1"), [3, 6]);
        assert_eq!(order("none of them, 99999999999999999999999"), Vec::<usize>::new());
    }
}
