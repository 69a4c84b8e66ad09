//! Work continues by itself when the program makes no calls, as it would on a device.

use std::sync::Once;
use std::thread;
use std::time::Duration;

use crate::session::Session;

/// Starts the thread that does so, once in a process.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        // Where no thread can be had, work waits for the next call.
        let _ = thread::Builder::new().name("fake-cuda".into()).spawn(work);
    });
}

fn work() {
    let mut calls = 0;
    loop {
        thread::sleep(Duration::from_millis(10));
        let mut session = Session::open();
        if session.calls == calls {
            let most = 1 + session.random.below(8);
            for _ in 0..most {
                if !session.step() {
                    break;
                }
            }
        }
        calls = session.calls;
    }
}
