//! What does a kill -9 in the middle of a pull leave behind? Nothing that looks like a model, and bytes to go on from.

use std::process::{Command, Stdio};
use std::time::Duration;

use models::{Home, Store};

use crate::hub::{Answer, Hub};
use crate::world::{World, hf};

const CHILD_HOME: &str = "MODELS_TEST_CHILD_HOME";
const CHILD_HUB: &str = "MODELS_TEST_CHILD_HUB";

/// Not a test of its own: the process that the next test kills. Without the variables it does nothing.
#[test]
fn the_child_that_is_killed() {
    let (Ok(home), Ok(hub)) = (std::env::var(CHILD_HOME), std::env::var(CHILD_HUB)) else {
        return;
    };
    let world = World::new(vec![hf()]);
    let store = Store::open(&Home::at(home)).unwrap();
    let options = models::PullOptions { hf_endpoint: Some(hub), ..Default::default() };
    store.pull(&world.model, &options, &mut |_| {}, &Default::default()).unwrap();
}

#[test]
fn a_pull_killed_in_the_middle_leaves_nothing_visible_and_is_resumed() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::SilentAfter(1_000_000), Answer::Good]);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::the_child_that_is_killed"])
        .env(CHILD_HOME, world.dir.path().join("home"))
        .env(CHILD_HUB, &hub.url)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..1_000 {
        if std::fs::metadata(world.part()).is_ok_and(|m| m.len() == 1_000_000) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    world.assert_nothing_visible();
    let pulled = world.pull(&hub.options()).unwrap();
    assert_eq!(pulled.bytes_fetched, 2_000_000);
    assert_eq!(hub.requests()[1].range.as_deref(), Some("bytes=1000000-"));
    world.assert_whole();
}
