//! What happened, and what comes next? The two languages in which the session and its driver speak to each other.

use super::Ending;
use crate::action::Call;
use crate::ask::{Answer, Question};
use crate::budget::Spent;
use crate::model::{Request, Usage};
use crate::subagent::AgentType;
use crate::tests_run::TestRun;
use crate::verify::Report;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Files as the session left them: path to text.
pub type Files = BTreeMap<String, String>;

/// Files to put back: path to text, `None` for the text of the base.
pub type Restore = BTreeMap<String, Option<String>>;

/// Something that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The task and what is known before the first word.
    Opened {
        /// What the person asked for.
        task: String,
        /// Paths of the repository, sorted, bounded.
        files: Vec<String>,
        /// AGENTS.md, where there is one.
        memory: Option<String>,
        /// The tests on the base.
        tests: Option<TestRun>,
        /// Functions of the repository that the failure calls.
        called: Vec<String>,
        /// Files of the repository that the task names.
        named: Vec<String>,
    },
    /// The model spoke.
    Replied {
        /// What it said.
        text: String,
        /// What it cost.
        usage: Usage,
    },
    /// The gate refused, or the reply held no action.
    Refused {
        /// For the model.
        why: String,
        /// By the gate, a hook or a person, and not because it could not be done.
        denied: bool,
    },
    /// An action ran.
    Observed {
        /// What the model is told.
        text: String,
        /// Files that it wrote.
        writes: Files,
        /// Files whose text it showed.
        shown: Vec<String>,
        /// Functions whose text it showed: one of them may be wrong.
        functions: Vec<String>,
        /// Their statements: one of them may be wrong.
        lines: Vec<String>,
    },
    /// The tests ran.
    Tested {
        /// What they said.
        run: TestRun,
    },
    /// The files went back to the last state worth keeping.
    Restored,
    /// The verifier spoke.
    Verified {
        /// Rung by rung.
        report: Report,
    },
    /// A hook added something that the model should know.
    Told {
        /// The hook.
        by: String,
        /// What it said.
        text: String,
    },
    /// A hook did not let the session end.
    SentOn {
        /// The hook.
        by: String,
        /// What is missing.
        why: String,
    },
    /// The conversation no longer fitted: the older half of its turns was left out.
    Compacted,
    /// A person answered a question, or did not.
    Answered {
        /// The question.
        question: Question,
        /// The answer.
        answer: Answer,
    },
    /// Something happened to a sub-agent: never the state of its parent.
    Child {
        /// Which one.
        agent_id: String,
        /// What happened.
        happened: Box<Record>,
    },
    /// A sub-agent came back, however it ended. What it says is the result of the action that started it.
    Returned {
        /// Which one.
        agent_id: String,
        /// What kind.
        agent_type: AgentType,
        /// How it ended.
        ending: Ending,
        /// What its calls of the model cost, in order.
        costs: Vec<Usage>,
        /// All that it spent of its parent's budget.
        spent: Spent,
    },
    /// A person resumed the session: it goes on with a new budget, and without what a person had granted it.
    Resumed,
    /// The session ended from outside: budget, Ctrl-C, a failure.
    Stopped {
        /// Why.
        ending: Ending,
    },
}

/// What to do next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Ask the model.
    Ask(Request),
    /// Judge this action and, if it is cleared, do it.
    Act(Call),
    /// Run the tests on the files as they are.
    Test,
    /// Put these files back in the box.
    Restore(Restore),
    /// Let the verifier decide.
    Verify,
    /// Nothing: the session is over.
    End(Ending),
}
