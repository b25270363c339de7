//! Can a file be read as a log whatever is in it? And does nothing verify but what was signed, and is everything that is
//! told of it harmless on a terminal?
#![no_main]

use agent::audit::{Ending, Head, Key, Ocsf, Record, Story, read_from, verify_from};
use libfuzzer_sys::fuzz_target;

/// The key that the logs in the corpus are signed with.
const KEY: [u8; 32] = [7; 32];

fuzz_target!(|data: &[u8]| {
    let records: Vec<Record> = read_from(data).map_while(Result::ok).collect();
    let report = verify_from(data, &Key::from_bytes(KEY), None).expect("bytes in memory can be read");
    assert!(report.records <= records.len() as u64, "more was verified than can be read");
    if let Some(head) = &report.head {
        assert_eq!(head.to_string().parse::<Head>().as_ref().ok(), Some(head));
        let again = verify_from(data, &Key::from_bytes(KEY), Some(head)).expect("bytes in memory can be read");
        assert!(report.ending != Ending::Whole || again.ending == Ending::Whole, "its own head does not fit");
        let other = verify_from(data, &Key::from_bytes([8; 32]), None).expect("bytes in memory can be read");
        assert_eq!(other.records, 0, "another key verifies");
    }
    let (mut story, mut ocsf) = (Story::new(), Ocsf::new());
    for record in &records {
        let line = story.tell(record);
        assert!(!line.chars().any(char::is_control), "{line:?}");
        for event in ocsf.events(record) {
            assert!(event["class_uid"].is_u64() && event["time"].is_u64());
        }
    }
    let _ = String::from_utf8_lossy(data).trim().parse::<Head>();
});
