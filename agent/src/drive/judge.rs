//! May this action run? The policy first, then the hooks, then a person; the strictest wins.
//!
//! What a hook rewrites is judged from the start. Whatever was judged and will run has its verdict on the disk before.

use super::accounts::Accounts;
use super::{Event, Halt, Loop};
use crate::action::Call;
use crate::ask::{Answer, Asking, Question};
use crate::audit::Durability;
use crate::gate::{self, Action, Cleared, Context, Grants, Judgement, Refused, Said, Verdict};
use crate::hooks::{Fold, Occasion, Told};
use crate::monitor;
use crate::session::{Ending, Files, Record, Session};
use crate::subagent::AgentType;
use crate::tools::{self, Outcome, Tools};
use crate::workspace::Checkpoint;
use serde_json::json;
use std::time::Instant;

/// An action that may run.
struct May {
    call: Call,
    cleared: Cleared<Action>,
    /// What hooks want the model to know about it.
    told: Vec<Told>,
}

impl Loop<'_> {
    /// Judges an action and, when it is cleared, does it.
    pub(super) fn act(&mut self, session: &mut Session, call: Call, accounts: &mut Accounts) -> Result<Record, Halt> {
        if let Some(why) = self.agents.refusal(&call, session.children()) {
            return Ok(Record::Refused { why, denied: true });
        }
        let call = match self.tools(session).resolve(call) {
            Ok(call) => call,
            Err(why) => return Ok(Record::Refused { why, denied: false }),
        };
        let May { call, cleared, mut told } = match self.may(session, call)? {
            Ok(may) => may,
            Err(why) => return Ok(Record::Refused { why, denied: true }),
        };
        let cancel = self.cancel;
        // A sub-agent's commands make what no session knows of; this takes that back too.
        let checkpoint = match call {
            Call::Task { subagent_type: AgentType::General, .. } => self.workspace.checkpoint()?,
            _ => None,
        };
        let outcome = match call {
            Call::Task { .. } => match self.delegate(session, &cleared, accounts, checkpoint)? {
                Ok(outcome) => outcome,
                Err(why) => return Ok(Record::Refused { why, denied: true }),
            },
            _ => self.tools(session).execute(&cleared, &call, cancel)?,
        };
        let (text, writes, shown, functions, lines) = match outcome {
            Outcome::Done { text, writes, shown, functions, lines } => (text, writes, shown, functions, lines),
            Outcome::Refused(why) => return Ok(Record::Refused { why, denied: false }),
        };
        // The tests and the verifier run afterwards, so there is nothing to tell yet.
        if matches!(call, Call::RunTests | Call::Finish { .. } | Call::ReportImpossible { .. }) {
            return Ok(Record::Observed { text: with(text, &told), writes, shown, functions, lines });
        }
        let fold = self.fire(&Occasion::PostToolUse { call: &call, response: &text }, &[])?;
        if let Some(said) = fold.blocked() {
            self.take_back(session, &writes, checkpoint)?;
            let gone = if writes.is_empty() { "" } else { ". What it wrote was taken back" };
            let why = format!("the hook {} says: {}{gone}", said.rule, said.reason);
            return Ok(Record::Refused { why, denied: true });
        }
        told.extend(fold.told);
        Ok(Record::Observed { text: with(text, &told), writes: self.as_they_are(writes), shown, functions, lines })
    }

    fn tools<'t>(&'t mut self, session: &'t Session) -> Tools<'t> {
        self.code.lay_over(session.files());
        Tools {
            workspace: self.workspace,
            code: self.code,
            recent: session.recent(),
            policy: self.policy,
            mode: self.mode,
        }
    }

    /// The action that may run, which need not be the one that was proposed; or why none may.
    fn may(&mut self, session: &mut Session, proposed: Call) -> Result<Result<May, String>, Halt> {
        let mut call = proposed.clone();
        let mut rewriters = Vec::new();
        loop {
            // What the policy denies no hook is asked about: none could loosen it.
            let action = tools::action(&call);
            let kind: Vec<Said> = self.agents.said(&action).into_iter().collect();
            let policy = gate::judge(self.policy, &action, &self.context(&self.grants, &kind));
            let mut fold = match policy.verdict {
                Verdict::Deny => Fold::default(),
                _ => self.fire(&Occasion::PreToolUse { call: &call }, &rewriters)?,
            };
            let Some((by, new)) = fold.rewritten.take() else {
                if !rewriters.is_empty() {
                    let text = format!("The action was rewritten: {}", in_short(&call));
                    fold.told.insert(0, Told { by: rewriters.join(", "), text });
                }
                return self.settle(session, (proposed != call).then_some(&proposed), call, fold);
            };
            rewriters.push(by);
            call = new;
        }
    }

    fn settle(
        &mut self,
        session: &mut Session,
        proposed: Option<&Call>,
        call: Call,
        fold: Fold,
    ) -> Result<Result<May, String>, Halt> {
        let Fold { mut said, told, .. } = fold;
        let seen = self.monitor.before(&call);
        self.flag(&seen)?;
        said.extend(monitor::said(&seen));
        said.extend(self.agents.said(&tools::action(&call)));
        let cleared = gate::clear(self.policy, tools::action(&call), &self.context(&self.grants, &said));
        self.judged(proposed, &call, of(&cleared))?;
        let cleared = match cleared {
            Err(refused) if refused.judgement.verdict == Verdict::Ask => {
                match self.asked(session, &call, &refused)? {
                    Err(why) => return Ok(Err(why)),
                    // With the answer everything is judged again: it turns Ask into Allow and nothing else.
                    Ok(grants) => {
                        let cleared = gate::clear(self.policy, refused.action, &self.context(&grants, &said));
                        self.judged(proposed, &call, of(&cleared))?;
                        cleared
                    }
                }
            }
            cleared => cleared,
        };
        Ok(cleared.map(|cleared| May { call, cleared, told }).map_err(|refused| refused.judgement.message()))
    }

    fn context<'c>(&self, grants: &'c Grants, said: &'c [Said]) -> Context<'c> {
        let person_present = self.asking.is_possible();
        Context { mode: self.mode, person_present, exhausted: None, grants, said }
    }

    /// On the disk before the effect, always.
    fn judged(&mut self, proposed: Option<&Call>, call: &Call, judgement: &Judgement) -> Result<(), Halt> {
        let mut verdict = json!({ "call": call, "judgement": judgement });
        if let Some(proposed) = proposed {
            verdict["proposed"] = json!(proposed);
        }
        let n = self.note("verdict", verdict, Durability::Synced)?;
        let seen = self.monitor.observe(n, monitor::Event::Judged(call, judgement));
        self.flag(&seen)?;
        (self.on_event)(Event::Judged { agent_id: self.agents.id(), call, judgement });
        Ok(())
    }

    /// Asks for consent to an action. What was consented to is returned together with what already was: a yes for
    /// this time is in no other place, and a yes for the session dies with this loop.
    fn asked(&mut self, session: &mut Session, call: &Call, refused: &Refused) -> Result<Result<Grants, String>, Halt> {
        let question = match Question::new(call, &refused.action, &refused.judgement) {
            Ok(question) => question,
            Err(why) => return Ok(Err(format!("{}, but {why}", refused.judgement.reason))),
        };
        let mut grants = self.grants.clone();
        grants.grant(&question.action);
        // The answer to a question that was parked. It is good for exactly what was shown.
        if session.consent().is_some_and(|given| given.action == question.action && given.shown == question.shown) {
            return Ok(Ok(grants));
        }
        let answer = match &mut self.asking {
            Asking::Nobody => Answer::Silence,
            Asking::Later => return Err(Halt::Ended(Ending::Parked { question: Box::new(question) })),
            Asking::Person { person, seconds_max } => {
                let deadline = Instant::now() + *seconds_max;
                let answer = person.ask(&question, deadline);
                if Instant::now() > deadline { Answer::Silence } else { answer }
            }
        };
        self.record(session, &Record::Answered { question, answer })?;
        if answer == Answer::YesForSession {
            self.grants.clone_from(&grants);
        }
        Ok(match answer {
            Answer::Yes | Answer::YesForSession => Ok(grants),
            Answer::No => Err("a person was asked and said no. Do the task without this".into()),
            Answer::Silence => Err("a person was asked and did not answer in time. Do the task without this".into()),
        })
    }

    /// Files as they were before the action: all of them where there was a checkpoint, else as far as the session knows them.
    pub(super) fn take_back(
        &mut self,
        session: &Session,
        writes: &Files,
        checkpoint: Option<Checkpoint>,
    ) -> Result<(), Halt> {
        if let Some(checkpoint) = checkpoint {
            return Ok(self.workspace.back_to(checkpoint)?);
        }
        let before = writes.keys().map(|path| (path.clone(), session.files().get(path).cloned())).collect();
        self.restore(&before)?;
        Ok(())
    }

    /// A hook may have formatted what the action wrote.
    fn as_they_are(&self, writes: Files) -> Files {
        let now = |path: &String| self.workspace.read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        writes.into_iter().map(|(path, text)| (path.clone(), now(&path).unwrap_or(text))).collect()
    }
}

fn of(cleared: &Result<Cleared<Action>, Box<Refused>>) -> &Judgement {
    cleared.as_ref().map_or_else(|refused| &refused.judgement, |cleared| cleared.judgement())
}

fn with(text: String, told: &[Told]) -> String {
    told.iter().fold(text, |text, Told { by, text: more }| format!("{text}\nThe hook {by} adds: {more}"))
}

/// What an action is, for the model: the name and what a rewrite can have changed in it.
fn in_short(call: &Call) -> String {
    let text = serde_json::to_string(&tools::action(call)).unwrap_or_default();
    crate::text::quote(&text, 400)
}
