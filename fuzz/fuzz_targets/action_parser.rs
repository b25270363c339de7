//! Does every reply of a model become one action or a complaint? And is an action the same after it was in the log?
#![no_main]

use agent::Call;
use agent::action::{is_whole, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let reply = String::from_utf8_lossy(data);
    let _ = is_whole(&reply);
    match parse(&reply) {
        Err(why) => assert!(!why.to_string().is_empty()),
        Ok(call) => {
            assert_eq!(parse(&reply), Ok(call.clone()), "the same reply, another action");
            let logged = agent::audit::canonical(&serde_json::to_value(&call).expect("a call is JSON"));
            let read: Call = serde_json::from_str(&logged).expect("what was logged can be read");
            assert_eq!(read, call);
        }
    }
});
