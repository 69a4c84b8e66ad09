//! Functions of the program that streams call, on a thread of the driver.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::operation::{HostFunction, Stamp};
use crate::session::{Session, as_host_function, progressed};

struct Call {
    stream: u32,
    stamp: Arc<Stamp>,
    function: HostFunction,
}

static CALLS: Mutex<Option<Sender<Call>>> = Mutex::new(None);

/// Has the function called by the thread for that. The stream stays busy until it returns.
pub fn call(stream: u32, stamp: Arc<Stamp>, function: HostFunction) {
    let mut calls = CALLS
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let sender = calls.get_or_insert_with(|| {
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new()
            .name("fake-cuda host functions".into())
            .spawn(move || receiver.iter().for_each(run))
            .expect("the fake driver needs a thread to call functions of the program");
        sender
    });
    sender
        .send(Call {
            stream,
            stamp,
            function,
        })
        .expect("the thread that calls functions of the program does not end");
}

fn run(call: Call) {
    // Whoever the function tells of it knows that everything before it is finished.
    Session::open().host_learns(&call.stamp.clock);
    as_host_function(|| {
        let HostFunction { function, data } = call.function;
        // SAFETY: the program gave both to be called in this way, once, from any thread.
        unsafe { function(data) };
    });
    let mut session = Session::open();
    session.watches.refresh_after(&call.stamp);
    session.streams.complete(call.stream);
    drop(session);
    progressed();
}
