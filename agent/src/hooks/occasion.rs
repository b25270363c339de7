//! What is a hook told?
//!
//! One JSON object, with the names and fields of Claude Code's hooks. Text of models, commands and files in it is
//! raw, as it was: a hook is a program and not a model, and a scanner must see what is really there.

use super::tool;
use crate::action::Call;
use crate::gate::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Where the box shows the repository: the working directory of every hook.
pub const WORKSPACE: &str = "/workspace";

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// A session begins, or goes on.
    SessionStart,
    /// A task was given.
    UserPromptSubmit,
    /// An action was proposed, and the policy does not deny it.
    PreToolUse,
    /// An action ran.
    PostToolUse,
    /// The conversation is about to be shortened.
    PreCompact,
    /// A sub-agent begins.
    SubagentStart,
    /// A sub-agent says that it is done.
    SubagentStop,
    /// The agent is done.
    Stop,
    /// The session is over; nothing is left to be blocked.
    SessionEnd,
}

/// What every hook is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The session.
    pub session_id: String,
    /// Its log, by its path on the host; the box does not show it.
    pub transcript_path: String,
    /// How much is asked of a person.
    pub mode: Mode,
    /// The sub-agent that this session is: its id and what kind it is.
    pub agent: Option<(String, String)>,
}

/// What is about to happen or has happened.
#[derive(Debug, Clone, Copy)]
pub enum Occasion<'a> {
    /// A session begins.
    SessionStart {
        /// `startup` or `resume`.
        source: &'a str,
        /// The model by name.
        model: &'a str,
    },
    /// A task was given.
    UserPromptSubmit {
        /// The task.
        prompt: &'a str,
    },
    /// An action was proposed.
    PreToolUse {
        /// The action.
        call: &'a Call,
    },
    /// An action ran.
    PostToolUse {
        /// The action.
        call: &'a Call,
        /// What the model would be told.
        response: &'a str,
    },
    /// The conversation is about to be shortened.
    PreCompact {
        /// `manual` or `auto`.
        trigger: &'a str,
    },
    /// A sub-agent begins.
    SubagentStart {
        /// Which one.
        agent_id: &'a str,
        /// What kind.
        agent_type: &'a str,
    },
    /// A sub-agent says that it is done.
    SubagentStop {
        /// Which one.
        agent_id: &'a str,
        /// What kind.
        agent_type: &'a str,
        /// Whether a hook has sent it on before.
        stop_hook_active: bool,
        /// Its answer.
        last_assistant_message: &'a str,
    },
    /// The agent is done.
    Stop {
        /// Whether a hook has sent it on before.
        stop_hook_active: bool,
        /// Its last words.
        last_assistant_message: &'a str,
    },
    /// The session is over.
    SessionEnd {
        /// Its ending by name.
        reason: &'a str,
    },
}

impl Occasion<'_> {
    /// The event that it is.
    pub fn event(&self) -> Event {
        match self {
            Self::SessionStart { .. } => Event::SessionStart,
            Self::UserPromptSubmit { .. } => Event::UserPromptSubmit,
            Self::PreToolUse { .. } => Event::PreToolUse,
            Self::PostToolUse { .. } => Event::PostToolUse,
            Self::PreCompact { .. } => Event::PreCompact,
            Self::SubagentStart { .. } => Event::SubagentStart,
            Self::SubagentStop { .. } => Event::SubagentStop,
            Self::Stop { .. } => Event::Stop,
            Self::SessionEnd { .. } => Event::SessionEnd,
        }
    }

    /// What a matcher is compared with; nothing where every hook of the event runs.
    pub fn subjects(&self) -> Vec<&str> {
        match *self {
            Self::PreToolUse { call } | Self::PostToolUse { call, .. } => tool::names(call).to_vec(),
            Self::SessionStart { source, .. } => vec![source],
            Self::PreCompact { trigger } => vec![trigger],
            Self::SubagentStart { agent_type, .. } | Self::SubagentStop { agent_type, .. } => vec![agent_type],
            Self::SessionEnd { reason } => vec![reason],
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => Vec::new(),
        }
    }

    /// The action, where there is one.
    pub fn call(&self) -> Option<&Call> {
        match *self {
            Self::PreToolUse { call } | Self::PostToolUse { call, .. } => Some(call),
            _ => None,
        }
    }

    /// The object for standard input.
    pub fn input(&self, facts: &Facts) -> Value {
        let mut input = json!({
            "session_id": facts.session_id,
            "transcript_path": facts.transcript_path,
            "cwd": WORKSPACE,
            "permission_mode": permission_mode(facts.mode),
            "hook_event_name": self.event(),
        });
        if let Some((id, kind)) = &facts.agent {
            input["agent_id"] = json!(id);
            input["agent_type"] = json!(kind);
        }
        if let Some(call) = self.call() {
            input["tool_name"] = json!(tool::names(call)[0]);
            input["tool_input"] = tool::input(call);
        }
        let own = match *self {
            Self::SessionStart { source, model } => json!({ "source": source, "model": model }),
            Self::UserPromptSubmit { prompt } => json!({ "prompt": prompt }),
            Self::PreToolUse { .. } => json!({}),
            Self::PostToolUse { response, .. } => json!({ "tool_response": response }),
            Self::PreCompact { trigger } => json!({ "trigger": trigger, "custom_instructions": "" }),
            Self::SubagentStart { agent_id, agent_type } => json!({ "agent_id": agent_id, "agent_type": agent_type }),
            Self::SubagentStop { agent_id, agent_type, stop_hook_active, last_assistant_message } => json!({
                "agent_id": agent_id, "agent_type": agent_type, "stop_hook_active": stop_hook_active,
                // Its records are in the log of its session, under its id.
                "agent_transcript_path": facts.transcript_path, "last_assistant_message": last_assistant_message,
            }),
            Self::Stop { stop_hook_active, last_assistant_message } => {
                json!({ "stop_hook_active": stop_hook_active, "last_assistant_message": last_assistant_message })
            }
            Self::SessionEnd { reason } => json!({ "reason": reason }),
        };
        if let (Value::Object(input), Value::Object(own)) = (&mut input, own) {
            input.extend(own);
        }
        input
    }
}

/// The word that scripts know for a mode.
fn permission_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Plan => "plan",
        Mode::Ask => "default",
        Mode::Auto => "auto",
        Mode::Strict => "dontAsk",
    }
}
