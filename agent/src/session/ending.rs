//! How can a session end?

use crate::ask::Question;
use serde::{Deserialize, Serialize};

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Ending {
    /// The verifier ran the project's own tests on the change in a fresh box, and they passed.
    Verified,
    /// The model says it is done, and there is nothing to prove it with.
    Unverified,
    /// The model says that it cannot be done: an honest end, and nothing is applied.
    Impossible {
        /// Its reason.
        why: String,
    },
    /// Every attempt failed.
    GaveUp {
        /// How many there were.
        attempts: usize,
    },
    /// Replies without a usable action.
    Stuck {
        /// The last complaint.
        why: String,
    },
    /// A limit of the budget.
    BudgetExhausted {
        /// Which one.
        which: String,
    },
    /// A hook has stopped the session, or did not let it end as done.
    Blocked {
        /// The hook.
        by: String,
        /// Its reason.
        why: String,
    },
    /// A second model rejected the change again after it had been told why.
    Rejected {
        /// The model.
        by: String,
        /// Its reasons.
        why: String,
    },
    /// Nobody is here to answer this question. An answer and a resume continue it.
    Parked {
        /// The question.
        question: Box<Question>,
    },
    /// Ctrl-C.
    Cancelled,
    /// The model, the server or the box failed.
    Failed {
        /// What failed, and what to do.
        why: String,
    },
}

impl Ending {
    /// The name in the log, the event stream and the closing line.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Unverified => "unverified",
            Self::Impossible { .. } => "impossible",
            Self::GaveUp { .. } => "gave_up",
            Self::Stuck { .. } => "stuck",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::Blocked { .. } => "blocked",
            Self::Rejected { .. } => "rejected",
            Self::Parked { .. } => "parked",
            Self::Cancelled => "cancelled",
            Self::Failed { .. } => "failed",
        }
    }
}
