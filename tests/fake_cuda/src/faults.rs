//! Failures on demand, of the tests' CUDA driver and of their NCCL: any call, or anything else that
//! has a name when it happens, can be made to fail.
//!
//! A fault is written `NAME:NUMBER:CODE`: the NUMBER-th time, from 1, that NAME comes it fails with
//! the code; `*` stands for all calls together. NUMBER 0 lets it fail every time. Several faults
//! are separated by commas.

use std::collections::HashMap;
use std::ffi::c_int;

struct Fault {
    name: String,
    number: u64,
    code: c_int,
}

/// What is to fail, and how often each thing came.
#[derive(Default)]
pub struct Faults {
    wanted: Vec<Fault>,
    counts: HashMap<&'static str, u64>,
    calls: u64,
    injected: u64,
}

impl Faults {
    /// Sets what is to fail, and counts from zero. An empty text sets nothing.
    pub fn set(&mut self, text: &str) -> Option<()> {
        let mut wanted = vec![];
        for fault in text.split(',').filter(|fault| !fault.is_empty()) {
            let mut parts = fault.split(':');
            let name = parts.next()?;
            let number = parts.next()?;
            let code = parts.next()?;
            let number = number.parse().ok()?;
            let code = code.parse().ok()?;
            wanted.push(Fault {
                name: name.into(),
                number,
                code,
            });
        }
        *self = Faults {
            wanted,
            ..Faults::default()
        };
        Some(())
    }

    /// How often something came; with `*` all calls.
    pub fn count(&self, name: &str) -> u64 {
        match name {
            "*" => self.calls,
            _ => self.counts.get(name).copied().unwrap_or(0),
        }
    }

    /// How many faults happened.
    pub fn injected(&self) -> u64 {
        self.injected
    }

    /// The code that a call is to fail with.
    pub fn in_call(&mut self, name: &'static str) -> Option<c_int> {
        self.calls += 1;
        self.meet(name, Some(self.calls))
    }

    /// The code of what is to happen now that `name`, which is no call, has come once more.
    pub fn at(&mut self, name: &'static str) -> Option<c_int> {
        self.meet(name, None)
    }

    fn meet(&mut self, name: &'static str, call: Option<u64>) -> Option<c_int> {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let count = *count;
        let hit = self.wanted.iter().find(|fault| {
            let number = if fault.name == "*" {
                call
            } else {
                (fault.name == name).then_some(count)
            };
            number.is_some_and(|number| [0, number].contains(&fault.number))
        })?;
        self.injected += 1;
        Some(hit.code)
    }

    /// Whether something holds as long as these faults do.
    #[allow(dead_code, reason = "NCCL alone asks")]
    pub fn holds(&self, name: &str) -> bool {
        self.wanted.iter().any(|fault| fault.name == name)
    }
}
