//! How likely was each token, in OpenAI's words?

use serde_json::{Map, Value, json};

/// A token with its logarithm of probability.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Likely {
    pub bytes: Vec<u8>,
    pub logprob: f32,
}

/// A token that was chosen, and the likeliest in its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scored {
    pub chosen: Likely,
    pub top: Vec<Likely>,
}

impl Likely {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn json(&self) -> Value {
        json!({"token": self.text(), "logprob": self.logprob, "bytes": self.bytes})
    }
}

/// The `logprobs` of a choice of chat; null where there are none.
pub(super) fn chat(scored: &[Scored]) -> Value {
    if scored.is_empty() {
        return Value::Null;
    }
    let one = |scored: &Scored| {
        let mut one = scored.chosen.json();
        one["top_logprobs"] = scored.top.iter().map(Likely::json).collect();
        one
    };
    json!({"content": scored.iter().map(one).collect::<Value>(), "refusal": null})
}

/// The `logprobs` of a choice of completions, and where its text ends, which began at `offset` characters.
pub(super) fn completion(scored: &[Scored], mut offset: usize) -> (Value, usize) {
    if scored.is_empty() {
        return (Value::Null, offset);
    }
    let mut offsets = Vec::new();
    for token in scored {
        offsets.push(offset);
        offset += token.chosen.text().chars().count();
    }
    let top = |scored: &Scored| {
        Value::Object(scored.top.iter().map(|token| (token.text(), token.logprob.into())).collect::<Map<_, _>>())
    };
    let logprobs = json!({
        "tokens": scored.iter().map(|token| token.chosen.text()).collect::<Vec<_>>(),
        "token_logprobs": scored.iter().map(|token| token.chosen.logprob).collect::<Vec<_>>(),
        "top_logprobs": scored.iter().map(top).collect::<Vec<_>>(),
        "text_offset": offsets,
    });
    (logprobs, offset)
}
