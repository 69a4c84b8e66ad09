//! Mistakes that were found in the program.

use std::fmt;

/// What kind of mistake it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mistake {
    /// Two accesses conflict and nothing orders them.
    Race,
    /// Memory is used that is no longer or not yet there.
    UseAfterFree,
    /// An access outside of every allocation, or across the end of one.
    OutOfBounds,
    /// An address that is no multiple of what is read or written there.
    Misaligned,
    /// Bytes are read that nothing wrote.
    Uninitialised,
    /// Page-locked memory was changed by the host while the device could still read it.
    PinnedChanged,
    /// Threads of a block do not all arrive at the same barrier.
    Barrier,
    /// Two threads of a block use the same shared memory with no barrier between.
    SharedRace,
    /// Two threads of a launch use the same global memory and nothing orders them.
    ThreadRace,
    /// A handle, context or argument that CUDA leaves undefined.
    Misuse,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mistake::Race => "race",
            Mistake::UseAfterFree => "use after free",
            Mistake::OutOfBounds => "out of bounds",
            Mistake::Misaligned => "misaligned",
            Mistake::Uninitialised => "uninitialised",
            Mistake::PinnedChanged => "pinned memory changed",
            Mistake::Barrier => "barrier",
            Mistake::SharedRace => "race in shared memory",
            Mistake::ThreadRace => "race in a launch",
            Mistake::Misuse => "misuse",
        })
    }
}

/// All mistakes so far, in the order in which they were found.
pub struct Reports {
    found: Vec<String>,
    abort: bool,
    quiet: bool,
}

/// Later ones are counted no more: one mistake in a loop would fill the memory.
const MOST: usize = 10_000;

impl Reports {
    pub fn new(abort: bool, quiet: bool) -> Reports {
        Reports {
            found: vec![],
            abort,
            quiet,
        }
    }

    /// Notes a mistake.
    pub fn add(&mut self, mistake: Mistake, text: &str) {
        let line = format!("{mistake}: {text}");
        if !self.quiet || self.abort {
            eprintln!("fake-cuda: {line}");
        }
        if self.abort {
            std::process::abort();
        }
        if self.found.len() < MOST {
            self.found.push(line);
        }
    }

    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// A line each.
    pub fn text(&self) -> String {
        self.found.join("\n")
    }

    pub fn clear(&mut self) {
        self.found.clear();
    }
}
