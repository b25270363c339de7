//! Does a file come whole from a hub, whatever the hub does?

use std::time::{Duration, Instant};

use models::{FetchError, Origin, PullError, PullOptions, Source};

use crate::hub::{Answer, Hub};
use crate::world::{World, gguf, hf};

#[track_caller]
fn attempts_of(error: PullError) -> Vec<FetchError> {
    match error {
        PullError::AllSourcesFailed { attempts, .. } => attempts.into_iter().map(|a| a.error).collect(),
        other => panic!("{other}"),
    }
}

/// Pulls from a hub that follows a script, and gives the ranges that were asked for.
#[track_caller]
fn check_arrives(script: &[Answer], ranges: &[Option<&str>]) {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, script);
    let pulled = world.pull(&hub.options()).unwrap();
    assert!(pulled.attempts.is_empty());
    assert_eq!(pulled.bytes_fetched, 3_000_000);
    world.assert_whole();
    let seen: Vec<_> = hub.requests().into_iter().map(|request| request.range).collect();
    assert_eq!(seen, ranges.iter().map(|r| r.map(String::from)).collect::<Vec<_>>());
}

#[test]
fn a_file_comes_whole_and_the_second_pull_asks_for_nothing() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Good]);
    let mut last = (0, 0);
    let mut progress = |p: models::Progress<'_>| last = (p.bytes_done, p.bytes_total);
    let cancel = Default::default();
    let pulled = world.store.pull(&world.model, &hub.options(), &mut progress, &cancel).unwrap();
    assert_eq!(pulled.source.as_deref(), Some("hf owner/tiny@aaaaaaaa"));
    assert_eq!(last, (3_000_000, 3_000_000));
    world.assert_whole();
    assert_eq!(world.pull(&hub.options()).unwrap().bytes_fetched, 0);
    let path = format!("/owner/tiny/resolve/{}/tiny.gguf", "a".repeat(40));
    assert_eq!(hub.requests().iter().map(|r| r.path.clone()).collect::<Vec<_>>(), [path]);
}

#[test]
fn a_transfer_that_breaks_off_is_resumed_by_a_range_within_one_pull() {
    check_arrives(&[Answer::CutAfter(1_000_000), Answer::Good], &[None, Some("bytes=1000000-")]);
}

#[test]
fn a_hub_without_ranges_is_asked_again_from_the_start() {
    check_arrives(&[Answer::CutAfter(1_000_000), Answer::NoRanges], &[None, Some("bytes=1000000-")]);
}

#[test]
fn a_body_cut_short_without_a_length_is_not_taken_for_the_file() {
    check_arrives(&[Answer::CutWithoutLength(2_000_000), Answer::Good], &[None, Some("bytes=2000000-")]);
}

#[test]
fn a_cancelled_pull_shows_nothing_and_the_next_one_goes_on_from_its_bytes() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Good]);
    let stopped = world.pull_until(&hub.options(), Origin::Hf, 500_000);
    assert!(matches!(stopped, Err(PullError::Cancelled)), "{stopped:?}");
    world.assert_nothing_visible();
    let left = std::fs::metadata(world.part()).unwrap().len();
    assert!((500_000..3_000_000).contains(&left), "{left}");
    assert_eq!(world.store.list().unwrap()[0].partial_bytes, left);
    let pulled = world.pull(&hub.options()).unwrap();
    assert_eq!(pulled.bytes_fetched, 3_000_000 - left);
    assert_eq!(hub.requests()[1].range, Some(format!("bytes={left}-")));
    world.assert_whole();
}

#[test]
fn bytes_damaged_between_two_pulls_cost_a_second_download_and_not_the_source() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Good]);
    std::fs::write(world.part(), vec![7; 100_000]).unwrap();
    let pulled = world.pull(&hub.options()).unwrap();
    assert!(matches!(pulled.attempts[0].error, FetchError::HashMismatch { .. }));
    assert_eq!(hub.requests().iter().map(|r| r.range.is_some()).collect::<Vec<_>>(), [true, false]);
    world.assert_whole();
}

#[test]
fn wrong_bytes_are_dropped_and_the_next_source_is_tried_and_both_are_told() {
    let mut world = World::new(vec![hf()]);
    let file = world.dir.path().join("right.gguf");
    std::fs::write(&file, &world.bytes).unwrap();
    world.model.sources.push(Source::Path { path: file });
    let hub = Hub::serve(&gguf(3_000_000, 2), &[Answer::Good]);
    let pulled = world.pull(&hub.options()).unwrap();
    let [attempt] = pulled.attempts.as_slice() else { panic!("{:?}", pulled.attempts) };
    assert!(matches!(&attempt.error, FetchError::HashMismatch { found, .. }
        if *found == models::Digest::of(&gguf(3_000_000, 2))));
    assert!(pulled.source.unwrap().starts_with("path "));
    world.assert_whole();
}

#[test]
fn wrong_bytes_from_the_only_source_leave_nothing_behind() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&gguf(3_000_000, 2), &[Answer::Good]);
    let errors = attempts_of(world.pull(&hub.options()).unwrap_err());
    assert!(matches!(errors.as_slice(), [FetchError::HashMismatch { .. }]), "{errors:?}");
    world.assert_nothing_visible();
    assert_eq!(world.names("partial"), Vec::<String>::new());
}

#[test]
fn an_answer_of_another_length_is_refused_before_its_body_is_read() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::LoginPage]);
    let errors = attempts_of(world.pull(&hub.options()).unwrap_err());
    assert!(matches!(errors.as_slice(), [FetchError::WrongSize { found: 6, .. }]), "{errors:?}");
}

#[test]
fn a_file_longer_than_it_may_be_is_dropped() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&gguf(4_000_000, 1), &[Answer::CutWithoutLength(4_000_000)]);
    let errors = attempts_of(world.pull(&hub.options()).unwrap_err());
    assert!(matches!(errors.as_slice(), [FetchError::WrongSize { .. }]), "{errors:?}");
    assert_eq!(world.names("partial"), Vec::<String>::new());
}

#[test]
fn every_source_that_failed_is_told_with_what_to_do_next() {
    let world = World::new(vec![hf(), Source::Path { path: "/nonexistent/x.gguf".into() }]);
    let hub = Hub::serve(&world.bytes, &[Answer::Status(404)]);
    let text = world.pull(&hub.options()).unwrap_err().to_string();
    for part in [
        "hf owner/tiny@aaaaaaaa: ",
        "HTTP status 404",
        "path /nonexistent/x.gguf: cannot read",
        "cloister models import PATH tiny",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_hub_that_cannot_be_reached_is_given_up_within_seconds() {
    for endpoint in ["http://127.0.0.1:1", "http://hub.invalid"] {
        let world = World::new(vec![hf()]);
        let options = PullOptions { hf_endpoint: Some(endpoint.into()), ..PullOptions::default() };
        let since = Instant::now();
        let errors = attempts_of(world.pull(&options).unwrap_err());
        assert!(since.elapsed() < Duration::from_secs(11), "{endpoint}");
        assert!(matches!(errors.as_slice(), [FetchError::Unreachable { .. }]), "{errors:?}");
    }
}

#[test]
fn a_hub_that_falls_silent_is_given_up_and_what_came_is_kept() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::SilentAfter(1_000_000), Answer::Status(503)]);
    let options = PullOptions { silence_seconds_max: 1, ..hub.options() };
    let errors = attempts_of(world.pull(&options).unwrap_err());
    assert!(matches!(errors.as_slice(), [FetchError::Status { status: 503, .. }]), "{errors:?}");
    assert_eq!(std::fs::metadata(world.part()).unwrap().len(), 1_000_000);
}

#[test]
fn the_token_goes_to_the_hub_and_the_environment_names_hub_and_token() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Good]);
    let options = PullOptions::from_vars(|name| match name {
        "HF_ENDPOINT" => Some(format!("{}/", hub.url)),
        "HF_TOKEN" => Some("secret".into()),
        _ => Some(String::new()),
    });
    world.pull(&options).unwrap();
    assert_eq!(hub.requests()[0].authorization.as_deref(), Some("Bearer secret"));
    assert!(hub.requests()[0].path.starts_with("/owner/"));
}

#[test]
fn a_second_puller_waits_for_the_first_and_downloads_nothing() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Slow(Duration::from_millis(800))]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| world.pull(&hub.options()).unwrap());
        while hub.requests().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut waited = false;
        let mut progress = |p: models::Progress<'_>| waited |= p.origin == Origin::OtherProcess;
        let cancel = Default::default();
        let second = world.store.pull(&world.model, &hub.options(), &mut progress, &cancel).unwrap();
        assert_eq!((second.bytes_fetched, waited), (0, true));
        assert_eq!(first.join().unwrap().bytes_fetched, 3_000_000);
    });
    assert_eq!(hub.requests().len(), 1);
    world.assert_whole();
}

#[test]
fn too_little_disk_space_is_said_in_bytes_before_anything_is_asked_for() {
    let world = World::new(vec![hf()]);
    let hub = Hub::serve(&world.bytes, &[Answer::Good]);
    let store = world.store.clone().with_free_bytes(|_| Ok(1_234));
    let error = store.pull(&world.model, &hub.options(), &mut |_| {}, &Default::default()).unwrap_err();
    assert!(matches!(error, PullError::NoSpace { needed_bytes: 3_000_000, free_bytes: 1_234, .. }), "{error}");
    assert!(hub.requests().is_empty());
    world.assert_nothing_visible();
}
