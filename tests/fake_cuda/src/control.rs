//! What tests ask this driver: one function of the library that the process has loaded, in words.

use std::ffi::{CString, c_char, c_void};

use crate::context::Context;
use crate::region::Place;
use crate::session::Session;

impl Session<'_> {
    /// Does what a test wants, and gives the number that it asked for. Each question is a method of
    /// [`Control`].
    pub fn ask(&mut self, question: &str) -> u64 {
        let (command, rest) = question.split_once(' ').unwrap_or((question, ""));
        match command {
            "reports" => return self.reports.count() as u64,
            "forget" => self.reports.clear(),
            "seed" => self.reseed(rest.parse().expect("a seed is a number")),
            "fault" => self.faults.set(rest).expect("FUNCTION:NUMBER:CODE,..."),
            "calls" => return self.faults.count(rest),
            "injected" => return self.faults.injected(),
            "moved" => return self.moved.named(rest),
            "live" => return self.live(rest),
            "mend" => self.mend(),
            _ => panic!("{question:?} is no question that the fake driver knows"),
        }
        0
    }

    /// How many things of a kind are alive.
    fn live(&self, kind: &str) -> u64 {
        let count = match kind {
            "memory" => self
                .memory
                .live()
                .filter(|region| region.device().is_some())
                .count(),
            "host memory" => self
                .memory
                .live()
                .filter(|region| matches!(region.place, Place::Locked))
                .count(),
            "registered memory" => self
                .memory
                .live()
                .filter(|region| matches!(region.place, Place::Registered))
                .count(),
            "streams" => {
                let defaults = self
                    .contexts
                    .iter()
                    .filter(|context| context.retained > 0)
                    .count();
                self.streams
                    .all()
                    .filter(|stream| !stream.destroyed)
                    .count()
                    - defaults
            }
            "events" => self.events.count(),
            "contexts" => self
                .contexts
                .iter()
                .map(|context: &Context| context.retained as usize)
                .sum(),
            _ => panic!("{kind:?} are not counted"),
        };
        count as u64
    }
}

/// The fake driver that this process has loaded as libcuda.so.1.
pub struct Control(Ask);

type Ask = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> u64;

impl Control {
    /// The loaded driver; `None` if none is to be found, or a real one.
    pub fn open() -> Option<Control> {
        // SAFETY: the names end with zeros; the fake driver's start runs no code.
        let found = unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY);
            if library.is_null() {
                return None;
            }
            libc::dlsym(library, c"fake_cuda_ask".as_ptr())
        };
        // SAFETY: include/fake_cuda.h declares the function so.
        (!found.is_null())
            .then(|| Control(unsafe { std::mem::transmute::<*mut c_void, Ask>(found) }))
    }

    fn ask_for_text(&self, question: &str, room: &mut [u8]) -> u64 {
        let question = CString::new(question).expect("the text has no zero");
        // SAFETY: the text ends with a zero, and there is as much room as is said.
        unsafe { (self.0)(question.as_ptr(), room.as_mut_ptr().cast(), room.len()) }
    }

    fn ask(&self, question: &str) -> u64 {
        self.ask_for_text(question, &mut [])
    }

    /// The texts of all mistakes found so far.
    pub fn reports(&self) -> Vec<String> {
        let mut room = vec![0; 1 << 16];
        self.ask_for_text("reports", &mut room);
        let end = room
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(room.len());
        String::from_utf8_lossy(&room[..end])
            .lines()
            .map(String::from)
            .collect()
    }

    /// The texts of all mistakes found so far, which are then forgotten.
    pub fn take_reports(&self) -> Vec<String> {
        let reports = self.reports();
        self.ask("forget");
        reports
    }

    /// Makes contexts that an error broke usable again, so that one process can try many mistakes.
    pub fn mend(&self) {
        self.ask("mend");
    }

    /// Starts the random numbers anew that decide in what order work runs.
    pub fn seed(&self, seed: u64) {
        self.ask(&format!("seed {seed}"));
    }

    /// Lets calls fail: `FUNCTION:NUMBER:CODE[:sticky],...`; an empty text ends it.
    pub fn fault(&self, text: &str) {
        self.ask(&format!("fault {text}"));
    }

    /// How often a function was called since the faults were set; `*` is all of them.
    pub fn calls(&self, function: &str) -> u64 {
        self.ask(&format!("calls {function}"))
    }

    /// How many faults happened since they were set.
    pub fn injected(&self) -> u64 {
        self.ask("injected")
    }

    /// How many bytes copies have moved: `to device` and `to host` (over the bus), `between
    /// devices`, `within a device`; and of those over the bus, `registered`, those from or to
    /// memory that the program has registered. Copies that still wait do not count.
    pub fn moved(&self, over: &str) -> u64 {
        self.ask(&format!("moved {over}"))
    }

    /// How many are alive: `memory`, `host memory`, `registered memory`, `streams`, `events`,
    /// `contexts`.
    pub fn live(&self, kind: &str) -> u64 {
        self.ask(&format!("live {kind}"))
    }
}
