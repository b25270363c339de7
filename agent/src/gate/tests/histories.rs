//! Permissions over a session's life, by 10,000 random histories: after resume and fork, and in a sub-agent, nothing
//! is allowed that was not allowed before.

use super::*;
use crate::subagent::AgentType;

const HISTORIES: u64 = 10_000;
const STEPS_MAX: u64 = 12;

/// SplitMix64 (Steele, Lea and Flood 2014): a seed gives one history.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.next(from.len() as u64) as usize]
    }
}

const RULES: &str = "version = 1
[[tool]]
id = \"t\"
verdict = \"allow\"
tools = [\"read_file\", \"write_file\", \"edit_file\", \"run_command\", \"run_tests\", \"task\"]
[[tool]]
id = \"t.ask\"
verdict = \"ask\"
tools = [\"run_tests\"]
[[path]]
id = \"p\"
verdict = \"allow\"
access = [\"read\", \"write\"]
glob = [\"**\"]
[[path]]
id = \"p.ask\"
verdict = \"ask\"
access = [\"write\"]
glob = [\"migrations/**\"]
[[path]]
id = \"p.deny\"
verdict = \"deny\"
access = [\"read\", \"write\"]
glob = [\"**/.env\"]
";

fn universe() -> Vec<Action> {
    vec![
        read("a.py"),
        read(".env"),
        write("migrations/1.sql"),
        write("migrations/2.sql"),
        write("/workspace/migrations/./1.sql"),
        Action::EditFile { path: "migrations/1.sql".into() },
        Action::RunTests,
        Action::named("task", "look").unwrap(),
        run("make x"),
        run("make  x"),
    ]
}

/// What one mode says to one action; a person is there, so that Ask is seen.
fn verdict(policy: &Policy, action: &Action, mode: Mode, grants: &Grants) -> Verdict {
    judge(policy, action, &Context { mode, person_present: true, grants, ..Context::default() }).verdict
}

#[test]
fn after_resume_and_fork_and_in_a_child_permissions_are_never_wider() {
    let policy = Policy::parse("histories", RULES).unwrap();
    let actions = universe();
    let mut narrower = 0;
    for seed in 0..HISTORIES {
        let mut random = Random(seed);
        let mut sessions = vec![Grants::default()];
        for _ in 0..=random.next(STEPS_MAX) {
            let at = random.next(sessions.len() as u64) as usize;
            // What the derived session may have at most: a child what its parent has, a resumed or forked one what
            // policy alone gives.
            let (derived, most) = match random.next(6) {
                0..4 => {
                    sessions[at].grant(random.pick(&actions));
                    continue;
                }
                4 => (Grants::default(), Grants::default()),
                _ => {
                    let kept: Vec<&str> = Action::NAMES.iter().copied().filter(|_| random.next(3) > 0).collect();
                    (sessions[at].for_child(&kept), sessions[at].clone())
                }
            };
            narrower += usize::from(derived != sessions[at]);
            let mode = *random.pick(&[Mode::Ask, Mode::Auto, Mode::Strict]);
            for action in sessions[at].actions.iter().chain([random.pick(&actions)]) {
                let (now, limit) = (verdict(&policy, action, mode, &derived), verdict(&policy, action, mode, &most));
                assert!(now >= limit, "seed {seed}: {mode} {action:?} is {now:?}, at most {limit:?}");
                assert!(*action != read(".env") || now == Verdict::Deny, "seed {seed}: a grant changed Deny");
            }
            sessions.push(derived);
        }
    }
    assert!(narrower > 1_000, "narrower ones were among them: {narrower}");
}

/// A session of a history: what it was granted, and what kind of sub-agent it is.
#[derive(Clone, Default)]
struct Live {
    grants: Grants,
    kind: Option<AgentType>,
}

impl Live {
    fn child(&self, kind: AgentType) -> Live {
        Live { grants: self.grants.for_child(kind.tools()), kind: Some(kind) }
    }

    /// As the loop judges: the kind is one more voice.
    fn verdict(&self, policy: &Policy, action: &Action, mode: Mode) -> Verdict {
        let said: Vec<Said> = self.kind.and_then(|kind| kind.said(action)).into_iter().collect();
        let context = Context { mode, person_present: true, grants: &self.grants, said: &said, ..Context::default() };
        judge(policy, action, &context).verdict
    }
}

#[test]
fn a_sub_agent_of_any_kind_is_never_wider_than_its_parent_whatever_was_granted_before() {
    let policy = Policy::parse("histories", RULES).unwrap();
    let actions = universe();
    let (mut narrower, mut inherited) = (0, 0);
    for seed in 0..HISTORIES {
        let mut random = Random(seed);
        let mut parent = Live::default();
        for _ in 0..=random.next(STEPS_MAX) {
            match random.next(6) {
                // A resumed or forked session, from which children start as from any other.
                0 => parent = Live::default(),
                _ => parent.grants.grant(random.pick(&actions)),
            }
        }
        let (kind, mode) = (*random.pick(&AgentType::ALL), *random.pick(&Mode::ALL));
        let child = parent.child(kind);
        for action in parent.grants.actions.iter().chain([random.pick(&actions)]) {
            let (now, limit) = (child.verdict(&policy, action, mode), parent.verdict(&policy, action, mode));
            assert!(now >= limit, "seed {seed}: {mode} {kind:?} {action:?} is {now:?}, at most {limit:?}");
            let given = kind.tools().contains(&action.name());
            assert!(given || now == Verdict::Deny, "seed {seed}: {kind:?} has no {action:?}");
            narrower += usize::from(now > limit);
            inherited += usize::from(child.grants.covers(action) && now == Verdict::Allow);
        }
    }
    assert!(narrower > 1_000 && inherited > 1_000, "both were among them: {narrower} {inherited}");
}
