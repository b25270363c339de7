//! How does a sub-agent run, and what comes back of it?
//!
//! It is the same loop over the same view, log, policy, hooks and monitor, with a conversation, a budget and grants of
//! its own. However it ends, its parent is told so and goes on; only a lost log, Ctrl-C and a hook that ends the whole
//! session reach further.

use super::accounts::Accounts;
use super::{Halt, LogLost, Loop};
use crate::ask::Asking;
use crate::gate::{Action, Cleared};
use crate::hooks::{Occasion, Told};
use crate::profile::Profile;
use crate::session::{Ending, Record, Session};
use crate::subagent::{ANSWER_BYTES_MAX, AgentType, Agents, PROMPT_BYTES_MAX};
use crate::text::{fenced, shown};
use crate::tools::Outcome;
use crate::verify::Review;
use crate::workspace::Checkpoint;
use std::mem::take;

/// Of why a sub-agent ended without an answer, in bytes.
const WHY_BYTES_MAX: usize = 400;

/// One sub-agent.
struct Child {
    id: String,
    kind: AgentType,
}

impl Loop<'_> {
    /// Runs the sub-agent that the gate has cleared; the inner error is a hook that did not let it start.
    pub(super) fn delegate(
        &mut self,
        session: &mut Session,
        cleared: &Cleared<Action>,
        accounts: &mut Accounts,
        checkpoint: Option<Checkpoint>,
    ) -> Result<Result<Outcome, String>, Halt> {
        let Action::Task { prompt, subagent_type: kind } = cleared.action() else {
            return Ok(Err("only a task is handed on".into()));
        };
        let child = Child { id: format!("a{}", session.children() + 1), kind: *kind };
        let occasion = Occasion::SubagentStart { agent_id: &child.id, agent_type: kind.name() };
        let fold = self.fire(&occasion, &[])?;
        if let Some(said) = fold.blocked() {
            return Ok(Err(format!("the hook {} does not let a sub-agent start: {}", said.rule, said.reason)));
        }
        let mut its = Session::child(Profile::for_model(self.model.name()), *kind, session.files());
        let ending = self.run_child(&child, &mut its, (prompt, fold.told), accounts, session)?;
        let mut writes = its.written_since(session.files());
        if matches!(ending, Ending::Blocked { .. }) {
            // What a hook did not agree to is not kept.
            self.take_back(session, &take(&mut writes), checkpoint)?;
        }
        let text = came_back(&child, &ending, &its);
        Ok(Ok(Outcome::Done { text, writes, shown: Vec::new(), functions: Vec::new(), lines: Vec::new() }))
    }

    /// Runs it to its end, whatever that is, and charges its parent.
    fn run_child(
        &mut self,
        child: &Child,
        its: &mut Session,
        (prompt, told): (&str, Vec<Told>),
        accounts: &mut Accounts,
        session: &mut Session,
    ) -> Result<Ending, Halt> {
        let mut own = Accounts { held: take(&mut accounts.held), ..Accounts::default() };
        let mut inner = Loop {
            model: &mut *self.model,
            workspace: &mut *self.workspace,
            code: self.code,
            policy: self.policy,
            mode: self.mode,
            asking: self.asking.for_child(),
            grants: self.grants.for_child(child.kind.tools()),
            agents: Agents::child(child.id.clone(), child.kind),
            hooks: self.hooks,
            log: &mut *self.log,
            monitor: take(&mut self.monitor),
            budget: self.budget.slice(&accounts.spent),
            plan: self.plan.clone(),
            review: Review::Nobody,
            cancel: self.cancel,
            on_event: &mut *self.on_event,
        };
        let finished = inner.open_child(its, prompt, told).and_then(|()| inner.go(its, &mut own));
        let (monitor, stopped) = (inner.monitor, inner.agents.stopped);
        self.monitor = monitor;
        accounts.held = own.held;
        accounts.spent.add_child(&own.spent);
        let ending = finished?.ending;
        let returned = Record::Returned {
            agent_id: child.id.clone(),
            agent_type: child.kind,
            ending: ending.clone(),
            costs: its.costs().to_vec(),
            spent: own.spent,
        };
        self.record(session, &returned)?;
        match (stopped, ending) {
            (Some(Told { by, text }), _) => Err(Halt::Ended(Ending::Blocked { by, why: text })),
            (None, Ending::Cancelled) => Err(Halt::Ended(Ending::Cancelled)),
            (None, ending) => Ok(ending),
        }
    }

    /// The first record of a child: its task, and what it may know of the repository.
    fn open_child(&mut self, its: &mut Session, prompt: &str, told: Vec<Told>) -> Result<(), LogLost> {
        let record = match self.workspace.walk() {
            Ok(files) => Record::Opened {
                task: shown(prompt.as_bytes(), PROMPT_BYTES_MAX).text,
                files: files.into_iter().take(super::FILES_MAX).collect(),
                memory: self.memory(),
                tests: None,
                called: Vec::new(),
                named: Vec::new(),
            },
            Err(error) => Record::Stopped { ending: Halt::from(error).ending()? },
        };
        self.record(its, &record)?;
        self.tell(its, told)
    }

    /// Asks the hooks whether a sub-agent may end; true when it goes on.
    pub(super) fn child_sent_on(&mut self, its: &mut Session) -> Result<Option<Record>, LogLost> {
        let Some((id, kind)) = self.agents.facts() else { return Ok(None) };
        let last = its.answer().unwrap_or_default().to_owned();
        self.stop_or_go(
            its,
            &Occasion::SubagentStop {
                agent_id: &id,
                agent_type: &kind,
                stop_hook_active: its.sent_on() > 0,
                last_assistant_message: &last,
            },
        )
    }
}

impl Asking<'_> {
    /// Whoever answers a child's questions. A child cannot be parked: where questions wait, its are denied.
    fn for_child(&mut self) -> Asking<'_> {
        match self {
            Self::Person { person, seconds_max } => Asking::Person { person: &mut **person, seconds_max: *seconds_max },
            Self::Nobody | Self::Later => Asking::Nobody,
        }
    }
}

/// What the parent is told: a child's words are data, and how it ended is never left out.
fn came_back(child: &Child, ending: &Ending, its: &Session) -> String {
    let who = format!("The sub-agent {} ({})", child.id, child.kind.name());
    let quoted = |text: &str| fenced(&shown(text.as_bytes(), ANSWER_BYTES_MAX).text);
    match (its.answer(), ending) {
        (Some(answer), Ending::Unverified) => format!("{who} is done. Its answer:\n{}", quoted(answer)),
        // Not with a hook's consent: its words are withheld as its files are.
        (_, Ending::Blocked { by, why }) => {
            format!("{who} was stopped by the hook {by}: {}\nWhat it wrote was taken back.", bounded(why))
        }
        (_, ending) => {
            let last = its.last_reply();
            let said = if last.is_empty() { String::new() } else { format!(" Its last words:\n{}", quoted(last)) };
            format!("{who} has no answer: {}.{said}", bounded(&in_words(ending)))
        }
    }
}

fn bounded(text: &str) -> String {
    crate::text::quote(text, WHY_BYTES_MAX)
}

fn in_words(ending: &Ending) -> String {
    match ending {
        Ending::Impossible { why } => format!("it says that it cannot be done: {why}"),
        Ending::GaveUp { attempts } => format!("it gave up after {attempts} attempts"),
        Ending::Stuck { why } => format!("it wrote no usable action: {why}"),
        Ending::BudgetExhausted { which } => format!("of its part of the budget, {which}"),
        Ending::Failed { why } => format!("it failed: {why}"),
        other => other.name().replace('_', " "),
    }
}
