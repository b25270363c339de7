//! What may an answer look like, and which tokens keep to it?
//!
//! A [`Shape`] says what is wanted; [`Grammars`] compiles it for one vocabulary into a [`Grammar`], which the engine follows
//! token by token. The parser is llguidance's; what is bounded before it sees a schema stands in `limits`. Compiling may
//! take a second: do it off the async threads.

mod limits;
mod shape;
mod vocabulary;

#[cfg(test)]
mod tests;

pub use shape::{CallShape, Shape, ToolShape};
pub use vocabulary::Vocabulary;

use crate::api::toolcall::OPEN_TAG;
pub(crate) use llguidance::CancellationHandle;
/// What follows an answer through a grammar.
pub(crate) use llguidance::Matcher as Parser;
/// The tokens that may come next, one bit each.
pub(crate) use llguidance::toktrie::SimpleVob as Mask;

use llguidance::ParserFactory;
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{InferenceCapabilities, TokEnv};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

/// States of one grammar's lexer, one or two kilobytes each by llguidance's account.
const LEXER_STATES_MAX: usize = 20_000;
/// What compiling may cost, in llguidance's units; a schema of a megabyte that hospitals use takes half of it.
const COMPILE_FUEL: u64 = 1_000_000;
/// What compiling may take, and what a request waits for its turn: llguidance's units do not count all that it does.
const COMPILE_TIME_MAX: Duration = Duration::from_secs(5);
/// Shapes that are compiled at once. One that takes too long is refused, but what compiles it cannot be stopped: it keeps
/// its place until it ends.
const COMPILING_MAX: usize = 2;
/// What one mask may cost, in the same units.
const MASK_FUEL: u64 = 200_000;

/// Compiles shapes for one vocabulary, which is read when the first one comes.
pub struct Grammars {
    compiler: Arc<Compiler>,
}

struct Compiler {
    vocabulary: Arc<dyn Vocabulary>,
    factory: OnceLock<Result<ParserFactory, String>>,
    /// How many compile.
    running: Mutex<usize>,
    ended: Condvar,
    /// What compiling may take, and what a request waits for its turn.
    time_max: Duration,
}

/// A compiled shape.
pub struct Grammar {
    source: Shape,
    /// At its beginning; each answer follows a copy.
    fresh: Mutex<Parser>,
}

/// Why a shape is not held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct GrammarError {
    /// The field of the request that holds the schema, and the place in it where that is known.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Grammars {
    /// Of this vocabulary. Cheap.
    pub fn new(vocabulary: impl Vocabulary) -> Grammars {
        Grammars::within(COMPILE_TIME_MAX, vocabulary)
    }

    fn within(time_max: Duration, vocabulary: impl Vocabulary) -> Grammars {
        let compiler = Compiler {
            vocabulary: Arc::new(vocabulary),
            factory: OnceLock::new(),
            running: Mutex::new(0),
            ended: Condvar::new(),
            time_max,
        };
        Grammars { compiler: Arc::new(compiler) }
    }

    /// Compiles `shape`, or says which of its schemas cannot be.
    pub fn compile(&self, shape: Shape) -> Result<Grammar, GrammarError> {
        shape.schemas().try_for_each(|(path, schema)| limits::check(path, schema))?;
        match self.matcher(shape.grammar()) {
            Ok(fresh) => Ok(Grammar { source: shape, fresh: Mutex::new(fresh) }),
            Err(reason) => Err(self.culprit(&shape, reason)),
        }
    }

    /// The schema that does not compile alone; if each does, they are too much together.
    fn culprit(&self, shape: &Shape, reason: String) -> GrammarError {
        for (path, schema) in shape.schemas() {
            let alone = TopLevelGrammar::from_json_schema(shape::bounded(schema));
            if let Err(reason) = self.matcher(alone) {
                return GrammarError { path: path.to_owned(), reason };
            }
        }
        let path = shape.schemas().next().map_or("tools", |(path, _)| path).to_owned();
        GrammarError { path, reason: format!("with the other schemas: {reason}") }
    }

    /// In time, or not at all.
    fn matcher(&self, grammar: TopLevelGrammar) -> Result<Parser, String> {
        let turn =
            Turn::of(&self.compiler).ok_or("others are being compiled that take too long: try it again later")?;
        let (tell, told) = mpsc::channel();
        let work = move || {
            let made = turn.0.matcher(grammar);
            drop(turn);
            // Nobody listens where the time was up.
            let _ = tell.send(made);
        };
        let thread = std::thread::Builder::new().name("grammar".into());
        thread.spawn(work).map_err(|error| format!("no thread to compile it: {error}"))?;
        let time_max = self.compiler.time_max;
        let late = || Err(format!("it takes more than {} s to compile", time_max.as_secs_f32()));
        told.recv_timeout(time_max).unwrap_or_else(|_| late())
    }
}

/// One of the places for those that compile.
struct Turn(Arc<Compiler>);

impl Turn {
    /// Waits for one, as long as compiling may take.
    fn of(compiler: &Arc<Compiler>) -> Option<Turn> {
        let running = compiler.running.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |running: &mut usize| *running >= COMPILING_MAX;
        let waited = compiler.ended.wait_timeout_while(running, compiler.time_max, full);
        let (mut running, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            return None;
        }
        *running += 1;
        Some(Turn(compiler.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_one();
    }
}

impl Compiler {
    fn matcher(&self, grammar: TopLevelGrammar) -> Result<Parser, String> {
        let factory = self.factory.get_or_init(|| factory(&self.vocabulary)).as_ref().map_err(Clone::clone)?;
        let made =
            llguidance::panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| factory.create_parser(grammar)));
        let matcher = Parser::new(made).into_cancellable();
        let words = |error: String| match error.starts_with("NoExtension") {
            true => "nothing fits it".to_owned(),
            false => limits::first_words(&error),
        };
        if let Some(error) = matcher.get_error() {
            return Err(words(error));
        }
        // What nothing fits, or what is too much at its first token already, is told before anything is computed.
        let first = matcher.deep_clone().compute_mask().map_err(|error| words(error.to_string()))?;
        if first.num_set() == 0 { Err("nothing fits it".into()) } else { Ok(matcher) }
    }
}

fn factory(vocabulary: &Arc<dyn Vocabulary>) -> Result<ParserFactory, String> {
    let words: TokEnv = Arc::new(vocabulary::Words::new(vocabulary.clone())?);
    let able = InferenceCapabilities { ff_tokens: true, ..InferenceCapabilities::default() };
    let slices = llguidance::earley::SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&words, able, &slices).map_err(|error| error.to_string())?;
    factory.quiet();
    *factory.limits_mut() = ParserLimits {
        initial_lexer_fuel: COMPILE_FUEL,
        step_lexer_fuel: MASK_FUEL,
        max_lexer_states: LEXER_STATES_MAX,
        verbose_errors: false,
        ..ParserLimits::default()
    };
    Ok(factory)
}

impl Grammar {
    /// What was compiled.
    pub fn shape(&self) -> &Shape {
        &self.source
    }

    /// The text with which the part that is held begins, where that is not the beginning of the answer.
    pub(crate) fn opens_with(&self) -> Option<&'static str> {
        self.source.is_late().then_some(OPEN_TAG)
    }

    /// Whether more may be said behind what was held.
    pub(crate) fn goes_on(&self) -> bool {
        self.source.is_late() && self.source.calls.as_ref().is_some_and(|calls| calls.several)
    }

    /// A parser at the beginning, that shares nothing with others.
    pub(crate) fn begin(&self) -> Parser {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).deep_clone()
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Grammar").field(&self.source).finish()
    }
}

impl PartialEq for Grammar {
    fn eq(&self, other: &Grammar) -> bool {
        self.source == other.source
    }
}
