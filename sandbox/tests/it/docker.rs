//! Does an engine (Docker, Podman) run jobs as a runtime does?

use std::sync::atomic::AtomicBool;

use sandbox::{BoxSpec, Ending, Job, Sandbox};

use crate::harness::{Yard, engine, run, sh, text};

fn open(yard: &Yard) -> Option<Sandbox> {
    let docker = Some(engine()?);
    Some(Sandbox::open(BoxSpec { docker, ..yard.spec() }).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn a_job_has_its_input_directory_variables_and_exit_code_and_what_it_wrote_is_the_diff() {
    let yard = Yard::new();
    let Some(sandbox) = open(&yard) else { return };
    eprintln!("{}", sandbox.footing());
    let job = Job {
        cwd: "src".into(),
        env: vec![("ONE".into(), "1".into())],
        stdin: Some(b"from outside\n".to_vec()),
        merged: false,
        ..Job::new(["sh", "-c", "cat; pwd; echo $ONE >&2; echo new > new; echo more >> util.py; rm main.py; exit 3"])
    };
    let outcome = run(&sandbox, &job);
    assert_eq!(outcome.ending, Ending::Exited(3));
    assert_eq!(text(&outcome), "from outside\n/workspace/src\n");
    assert_eq!(outcome.stderr, b"1\n");
    let touched = sandbox.view().touched().expect("touched");
    assert_eq!(touched, ["src/main.py", "src/new", "src/util.py"].map(std::path::PathBuf::from));
    assert_eq!(sandbox.view().read("src/util.py").expect("util"), b"x = 1\nmore\n");
    let told = text(&sh(&sandbox, "cat src/new; ls src; env | cut -d= -f1 | sort | tr '\\n' ' '"));
    assert_eq!(told, "new\nnew\nutil.py\nHOME LANG PATH PWD PYTHONDONTWRITEBYTECODE TERM TZ USER ");
    let _ = AtomicBool::new(false);
}
