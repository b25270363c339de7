//! Does this policy load, what does it say about one action, and what would it say about an old session?

use crate::args::{Policies, PolicyFiles};
use crate::exit::{Exit, Fatal};
use crate::sessions::verdicts;
use crate::state::State;
use agent::gate::{self, Action, Context, Policy};

/// `cloister policy …`
pub fn policy(command: Policies) -> Result<Exit, Fatal> {
    match command {
        Policies::Check { files } => {
            println!("{}", load(&files)?.summary());
            Ok(Exit::Done)
        }
        Policies::Explain { what, tool, mode, files } => {
            let Some(action) = Action::named(&tool, &what) else {
                let error = anyhow::anyhow!("there is no tool `{tool}`");
                return Err(Fatal::config(error, format!("the tools are {}", Action::NAMES.join(", "))));
            };
            let context = Context { mode, person_present: true, ..Context::default() };
            println!("{}", gate::explain(&load(&files)?, &action, &context));
            Ok(Exit::Done)
        }
        Policies::Replay { id, mode, files } => {
            let logged = verdicts(&State::open()?, &id)?;
            let context = Context { mode, ..Context::default() };
            let changed = gate::replay(&load(&files)?, &logged, &context);
            for change in &changed {
                println!("{change}");
            }
            println!("{} of {} actions would be judged differently in {mode} mode", changed.len(), logged.len());
            Ok(Exit::Done)
        }
    }
}

fn load(files: &PolicyFiles) -> Result<Policy, Fatal> {
    Policy::load(files.policy.as_deref(), &files.repo)
        .map_err(|error| Fatal::config(error, "no session starts with a policy that does not load; correct the file"))
}
