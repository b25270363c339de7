//! Permissions over a session's life, by 10,000 random histories: after resume and fork, and in a sub-agent, nothing
//! is allowed that was not allowed before.

use super::*;

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
tools = [\"read_file\", \"write_file\", \"edit_file\", \"run_command\", \"run_tests\"]
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
        run("make x"),
        run("make  x"),
    ]
}

/// What each mode says to each action; a person is there, so that Ask is seen.
fn verdicts(policy: &Policy, actions: &[Action], grants: &Grants) -> Vec<Verdict> {
    let modes = [Mode::Ask, Mode::Auto, Mode::Strict];
    let judge_in = |mode, action| {
        let context = Context { mode, person_present: true, grants, ..Context::default() };
        judge(policy, action, &context).verdict
    };
    modes.iter().flat_map(|mode| actions.iter().map(move |action| judge_in(*mode, action))).collect()
}

#[test]
fn after_resume_and_fork_and_in_a_child_permissions_are_never_wider() {
    let policy = Policy::parse("histories", RULES).unwrap();
    let actions = universe();
    let alone = verdicts(&policy, &actions, &Grants::default());
    let mut narrower = 0;
    for seed in 0..HISTORIES {
        let mut random = Random(seed);
        // Each session with the one that it is a child of; a resumed or forked one is nobody's child.
        let mut sessions: Vec<(Grants, Option<usize>)> = vec![(Grants::default(), None)];
        for _ in 0..=random.next(STEPS_MAX) {
            let at = random.next(sessions.len() as u64) as usize;
            match random.next(6) {
                0..3 => {
                    // A person's consent to a child's question is consent to the child alone, and only a root can
                    // be asked in this history, so that a child's permissions come from its parent.
                    if sessions[at].1.is_none() && !sessions.iter().any(|(_, parent)| *parent == Some(at)) {
                        sessions[at].0.grant(random.pick(&actions));
                    }
                }
                3 => sessions.push((sessions[at].0.for_resume(), None)),
                4 => {
                    let kept: Vec<&str> = Action::NAMES.iter().copied().filter(|_| random.next(3) > 0).collect();
                    let child = sessions[at].0.for_child(&kept);
                    narrower += usize::from(child != sessions[at].0);
                    sessions.push((child, Some(at)));
                }
                _ => {
                    let taken = random.pick(&actions).clone();
                    if !sessions.iter().any(|(_, parent)| *parent == Some(at)) {
                        sessions[at].0.revoke(&taken);
                    }
                }
            }
            let resumed = sessions.last().is_some_and(|(grants, parent)| parent.is_none() && *grants == Grants::default());
            if let Some((grants, Some(parent))) = sessions.last() {
                let (child, parent) = (verdicts(&policy, &actions, grants), verdicts(&policy, &actions, &sessions[*parent].0));
                assert!(child.iter().zip(&parent).all(|(c, p)| c >= p), "seed {seed}: {child:?} {parent:?}");
            } else if resumed {
                assert_eq!(verdicts(&policy, &actions, &sessions.last().unwrap().0), alone, "seed {seed}");
            }
        }
        for (grants, _) in &sessions {
            let now = verdicts(&policy, &actions[1..2], grants);
            assert!(now.iter().all(|v| *v == Verdict::Deny), "seed {seed}: a grant changed Deny");
        }
    }
    assert!(narrower > 100, "children narrower than their parents were among them: {narrower}");
}
