//! Does the engine answer each request once, the same with and without its cache?

use crate::found;
use crate::tiny::Tiny;
use inference::kv::{BLOCK_TOKENS, DiskCache};
use inference::{
    Engine, EngineSettings, Event, Finish, FinishReason, GenerateRequest, Generation, Message, Role, Sampling,
    SubmitError,
};
use std::path::Path;

pub fn engine(settings: EngineSettings) -> (Tiny, Engine) {
    let tiny = Tiny::new();
    let engine = Engine::load(&tiny.path(), settings).unwrap();
    (tiny, engine)
}

fn prompt(engine: &Engine, text: &str) -> Vec<u32> {
    engine.chat().encode(&[Message::new(Role::User, text)], None, true).unwrap()
}

/// The chosen tokens, the text as it came, and the end. Checks that there is exactly one start and one end.
pub fn drain(mut generation: Generation) -> (Vec<u32>, String, Finish) {
    let (mut tokens, mut text, mut finish, mut started) = (Vec::new(), String::new(), None, 0);
    while let Some(event) = generation.recv() {
        assert!(finish.is_none(), "an event after Done: {event:?}");
        match event {
            Event::Started { .. } => started += 1,
            Event::Text { text: piece, token, .. } => {
                text.push_str(&piece);
                tokens.push(token);
            }
            Event::Done(done) => finish = Some(done),
        }
    }
    assert!(started <= 1 && generation.recv().is_none());
    (tokens, text, finish.expect("the events end with Done"))
}

pub fn generate(engine: &Engine, request: GenerateRequest) -> (Vec<u32>, String, Finish) {
    drain(engine.submit(request).unwrap())
}

#[test]
fn the_text_of_the_events_is_the_text_of_the_end() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let prompt = prompt(&engine, "Hello there");
    let (tokens, text, finish) = generate(&engine, GenerateRequest::greedy(prompt.clone(), 40));
    assert_eq!(text, finish.text);
    assert_eq!(tokens.len(), finish.usage.generated_tokens);
    assert_eq!(finish.usage.prompt_tokens, prompt.len());
    assert_eq!(finish.usage.computed_tokens, prompt.len());
    assert_eq!(finish.reason, if tokens.len() == 40 { FinishReason::Length } else { FinishReason::Stop });
}

/// Plays a conversation of three turns with the cache on, and each of its prompts again with the cache off.
fn check_cache(engine: &Engine, questions: [&str; 3], tokens_max: usize) {
    let mut messages = vec![Message::new(Role::System, "You answer briefly.")];
    for (turn, question) in questions.into_iter().enumerate() {
        messages.push(Message::new(Role::User, question));
        let prompt = engine.chat().encode(&messages, None, true).unwrap();
        let request = GenerateRequest::greedy(prompt.clone(), tokens_max);
        let (tokens, text, finish) = generate(engine, request.clone());
        let (tokens_alone, _, alone) = generate(engine, GenerateRequest { cache: false, ..request });
        assert_eq!(tokens, tokens_alone, "turn {turn}: the cache changed the tokens");
        assert_eq!(alone.usage.cached_tokens, 0);
        if turn > 0 {
            let share = finish.usage.cached_tokens as f64 / prompt.len() as f64;
            println!("turn {turn}: {} of {} tokens reused", finish.usage.cached_tokens, prompt.len());
            assert!(share > 0.5, "turn {turn}: only {share} of the prompt was reused");
        }
        messages.push(Message::new(Role::Assistant, text));
    }
}

#[test]
fn greedy_output_is_the_same_token_for_token_with_the_cache_on_and_off() {
    let (_tiny, engine) = engine(EngineSettings { chunk_tokens: 23, ..EngineSettings::default() });
    let long = "a line of some length that fills a few blocks of the cache ".repeat(3);
    check_cache(&engine, [&long, "And the second question, which is shorter?", "third"], 45);
}

#[test]
fn the_cache_changes_no_token_of_a_real_model() {
    let test = "the_cache_changes_no_token_of_a_real_model";
    if found::slow(test)
        && let Some(path) = found::qwen(test, "0.5b")
    {
        let engine = Engine::load(&path, EngineSettings::default()).unwrap();
        let questions = [
            "Write a Python function that reverses a string.",
            "Now make it ignore vowels.",
            "Give me one unit test for it.",
        ];
        check_cache(&engine, questions, 80);
    }
}

#[test]
fn what_a_turn_generated_is_reused_to_the_token_in_the_next_prompt() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let mut messages = vec![Message::new(Role::User, "one")];
    let first = engine.chat().encode(&messages, None, true).unwrap();
    let (tokens, text, _) = generate(&engine, GenerateRequest::greedy(first.clone(), 50));
    messages.extend([Message::new(Role::Assistant, text), Message::new(Role::User, "two")]);
    let second = engine.chat().encode(&messages, None, true).unwrap();
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(second, 5));
    // All but the last chosen token were computed, and that one ended the answer.
    assert_eq!(finish.usage.cached_tokens, first.len() + tokens.len() - 1);
}

#[test]
fn a_block_is_reused_up_to_the_token_where_the_prompt_differs() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let base: Vec<u32> = (0..75).collect();
    generate(&engine, GenerateRequest::greedy(base.clone(), 1));
    // The same prompt: all but the last token, whose scores are needed.
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(base.clone(), 1));
    assert_eq!((finish.usage.cached_tokens, finish.usage.diverged_at), (74, None));
    let mut other = base.clone();
    other[50] = 200;
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(other.clone(), 1));
    assert_eq!((finish.usage.cached_tokens, finish.usage.diverged_at), (50, Some(50)));
    assert_eq!(finish.usage.computed_tokens, 25);
    // The block that the second prompt was copied from still serves the first.
    for prompt in [base, other] {
        let (_, _, finish) = generate(&engine, GenerateRequest::greedy(prompt, 1));
        assert_eq!(finish.usage.cached_tokens, 74);
    }
}

#[test]
fn the_same_seed_gives_the_same_tokens_and_another_seed_others() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let prompt = prompt(&engine, "Say something");
    let sampled = |seed, cache| {
        let sampling = Sampling { temperature: 1.0, top_p: 0.95, top_k: 50, seed };
        generate(&engine, GenerateRequest { sampling, cache, ..GenerateRequest::greedy(prompt.clone(), 30) }).0
    };
    assert_eq!(sampled(1, true), sampled(1, false));
    assert_ne!(sampled(1, true), sampled(2, true));
}

#[test]
fn a_stop_string_over_token_boundaries_ends_the_answer() {
    let (_tiny, engine) = engine(EngineSettings::default());
    // A tiny model ends its turn at random; look for a prompt that it has much to say to.
    let answers = (0..100).map(|i| {
        let prompt = prompt(&engine, &format!("Hello {i}"));
        let (_, whole, _) = generate(&engine, GenerateRequest::greedy(prompt.clone(), 60));
        (prompt, whole)
    });
    let (prompt, whole) = answers.into_iter().find(|(_, whole)| whole.chars().count() > 30).unwrap();
    let chars: Vec<(usize, char)> = whole.char_indices().collect();
    let stop = whole[chars[20].0..chars[26].0].to_owned();
    let expected = &whole[..whole.find(&stop).unwrap()];
    let request = GenerateRequest { stop: vec![stop], ..GenerateRequest::greedy(prompt, 60) };
    let (_, text, finish) = generate(&engine, request);
    assert_eq!((text.as_str(), finish.text.as_str()), (expected, expected));
    assert_eq!(finish.reason, FinishReason::Stop);
}

#[test]
fn a_cancelled_request_ends_once_and_leaves_its_blocks_to_the_cache() {
    let (_tiny, engine) = engine(EngineSettings { chunk_tokens: 32, ..EngineSettings::default() });
    let prompt: Vec<u32> = (0..1000).map(|i| i % 300).collect();
    let mut generation = engine.submit(GenerateRequest::greedy(prompt.clone(), 3000)).unwrap();
    assert!(matches!(generation.recv(), Some(Event::Started { .. })));
    for _ in 0..3 {
        assert!(matches!(generation.recv(), Some(Event::Text { .. })));
    }
    generation.cancel();
    let (tokens, _, finish) = drain(generation);
    // A tiny model may say all it has before the flag is seen.
    assert!(finish.reason == FinishReason::Cancelled || tokens.len() > 1000, "{:?}", finish.reason);
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(prompt.clone(), 1));
    assert_eq!(finish.usage.cached_tokens, prompt.len() - 1);
}

#[test]
fn dropping_a_generation_cancels_it_and_the_next_request_runs() {
    let (_tiny, engine) = engine(EngineSettings { queue_max: 2, ..EngineSettings::default() });
    drop(engine.submit(GenerateRequest::greedy(vec![1, 2, 3], 4000)).unwrap());
    let (_, _, finish) = generate(&engine, GenerateRequest::greedy(vec![4, 5, 6], 3));
    assert_ne!(finish.reason, FinishReason::Cancelled);
}

#[test]
fn what_cannot_run_is_refused_with_its_reason() {
    let (_tiny, engine) = engine(EngineSettings { context_tokens_max: 128, ..EngineSettings::default() });
    let refuse = |request: GenerateRequest| engine.submit(request).err().expect("refused");
    let greedy = GenerateRequest::greedy;
    assert_eq!(refuse(greedy(vec![], 1)), SubmitError::PromptEmpty);
    let too_long = SubmitError::PromptTooLong { prompt_tokens: 128, context_tokens_max: 128 };
    assert_eq!(refuse(greedy(vec![1; 128], 1)), too_long);
    assert_eq!(refuse(greedy(vec![320], 1)), SubmitError::UnknownToken { id: 320, vocabulary: 320 });
    assert!(matches!(refuse(greedy(vec![1], 0)), SubmitError::Invalid { .. }));
    let hot = Sampling { temperature: f32::NAN, ..Sampling::GREEDY };
    assert!(matches!(refuse(GenerateRequest { sampling: hot, ..greedy(vec![1], 1) }), SubmitError::Invalid { .. }));
    // The context ends an answer that the request would let go on.
    let (tokens, _, finish) = generate(&engine, greedy(vec![1; 120], 1000));
    assert!(tokens.len() <= 8 && finish.usage.prompt_tokens == 120, "{finish:?}");
}

#[test]
fn a_full_queue_refuses_and_shutdown_answers_all_that_wait() {
    let (_tiny, engine) = engine(EngineSettings { running_max: 1, queue_max: 1, ..EngineSettings::default() });
    let long = || GenerateRequest { cache: false, ..GenerateRequest::greedy(vec![7; 3000], 1000) };
    let mut running = engine.submit(long()).unwrap();
    assert!(matches!(running.recv(), Some(Event::Started { .. })));
    let waiting = engine.submit(long()).unwrap();
    assert_eq!(engine.submit(long()).err(), Some(SubmitError::QueueFull));
    let other = engine.clone();
    engine.shutdown();
    assert_eq!(drain(running).2.reason, FinishReason::Cancelled);
    assert_eq!(drain(waiting).2.reason, FinishReason::Cancelled);
    assert_eq!(other.submit(long()).err(), Some(SubmitError::Stopped));
    other.shutdown();
}

#[test]
fn more_conversations_than_the_memory_holds_evict_each_other_and_nothing_else() {
    // 6 blocks: 192 tokens.
    let (_tiny, engine) = engine(EngineSettings { kv_bytes_max: 6 * 49152, ..EngineSettings::default() });
    assert_eq!(engine.info().context_tokens, 192);
    let conversation = |i: u32| GenerateRequest::greedy((0..100).map(|t| (t * 7 + i * 13) % 300).collect(), 20);
    let first: Vec<_> = (0..5).map(|i| generate(&engine, conversation(i)).0).collect();
    let again: Vec<_> = (0..5).map(|i| generate(&engine, conversation(i)).0).collect();
    assert_eq!(first, again);
}

#[test]
fn async_code_receives_the_same_events() {
    let (_tiny, engine) = engine(EngineSettings::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut generation = engine.submit(GenerateRequest::greedy(vec![1, 2, 3], 5)).unwrap();
    let last = runtime.block_on(async {
        let mut last = None;
        while let Some(event) = generation.next().await {
            last = Some(event);
        }
        last
    });
    assert!(matches!(last, Some(Event::Done(_))));
}

#[test]
fn the_real_model_answers_a_question() {
    let test = "the_real_model_answers_a_question";
    if !found::slow(test) {
        return;
    }
    let Some(path) = found::qwen(test, "1.5b") else { return };
    let engine = Engine::load(Path::new(&path), EngineSettings::default()).unwrap();
    let prompt = prompt(&engine, "What is the capital of France? Answer with one word.");
    let (_, text, finish) = generate(&engine, GenerateRequest::greedy(prompt, 20));
    assert_eq!(finish.reason, FinishReason::Stop);
    assert!(text.contains("Paris"), "{text}");
}

/// An engine over this model and this directory; the next prompt finds there what this one computed.
fn over(tiny: &Tiny, directory: &Path, model: &str) -> Engine {
    let disk = DiskCache::open(directory, 1 << 30, model, Box::new(|line| panic!("{line}"))).unwrap();
    Engine::load_over(&tiny.path(), EngineSettings::default(), Some(disk)).unwrap()
}

#[test]
fn what_was_computed_is_read_from_the_disk_after_a_restart_and_the_tokens_are_the_same() {
    let (tiny, kept) = (Tiny::new(), tempfile::tempdir().unwrap());
    let text = "a prompt that is long enough for some blocks ".repeat(9);
    let first = over(&tiny, kept.path(), "model");
    let prompt = prompt(&first, &text);
    let asked = || GenerateRequest::greedy(prompt.clone(), 40);
    let (tokens, _, finish) = generate(&first, asked());
    assert_eq!(finish.usage.disk_tokens, 0);
    first.shutdown();

    let again = over(&tiny, kept.path(), "model");
    let (tokens_again, _, finish) = generate(&again, asked());
    assert_eq!(tokens_again, tokens);
    let whole = (prompt.len() - 1) / BLOCK_TOKENS * BLOCK_TOKENS;
    let read = (finish.usage.cached_tokens, finish.usage.disk_tokens, finish.usage.computed_tokens);
    assert_eq!(read, (whole, whole, prompt.len() - whole));
    // Now it is in memory; and a prompt that leaves it within a block has the rest from neither.
    let (tokens_third, _, finish) = generate(&again, asked());
    assert_eq!((tokens_third, finish.usage.disk_tokens), (tokens.clone(), 0));
    let (alone, _, finish) = generate(&again, GenerateRequest { cache: false, ..asked() });
    assert_eq!((alone, finish.usage.cached_tokens), (tokens, 0));
    again.shutdown();

    let other = over(&tiny, kept.path(), "another file");
    assert_eq!(generate(&other, asked()).2.usage.cached_tokens, 0);
}

#[test]
fn a_conversation_goes_on_after_a_restart_where_memory_and_disk_meet() {
    let (tiny, kept) = (Tiny::new(), tempfile::tempdir().unwrap());
    let engine = over(&tiny, kept.path(), "model");
    let long = prompt(&engine, &"what two conversations share, and then more of it ".repeat(12));
    generate(&engine, GenerateRequest::greedy(long.clone(), 2));
    engine.shutdown();
    let engine = over(&tiny, kept.path(), "model");
    // In memory there is the beginning alone, which ends within a block.
    let begun = long.len() / 2 + 5;
    generate(&engine, GenerateRequest::greedy(long[..begun].to_vec(), 1));
    let asked = GenerateRequest::greedy(long.clone(), 20);
    let (tokens, _, finish) = generate(&engine, asked.clone());
    assert!(finish.usage.disk_tokens > 0 && finish.usage.cached_tokens > begun, "{:?}", finish.usage);
    let (alone, _, _) = generate(&engine, GenerateRequest { cache: false, ..asked });
    assert_eq!(tokens, alone);
}
