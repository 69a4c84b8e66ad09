//! Failures on demand, `NAME:NUMBER:CODE`, several of them separated by commas; see `Control::fault`.

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
    /// Sets what is to fail, and counts from zero.
    pub fn set(&mut self, text: &str) -> Option<()> {
        let mut wanted = vec![];
        for fault in text.split(',').filter(|fault| !fault.is_empty()) {
            let mut parts = fault.split(':');
            let (name, number, code) = (parts.next()?, parts.next()?, parts.next()?);
            let (number, code) = (number.parse().ok()?, code.parse().ok()?);
            wanted.push(Fault { name: name.into(), number, code });
        }
        *self = Faults { wanted, ..Faults::default() };
        Some(())
    }

    /// How often something came; with `*` all calls.
    pub fn count(&self, name: &str) -> u64 {
        match name {
            "*" => self.calls,
            _ => self.counts.get(name).copied().unwrap_or(0),
        }
    }

    pub fn injected(&self) -> u64 {
        self.injected
    }

    /// The code that a call is to fail with.
    pub fn in_call(&mut self, name: &'static str) -> Option<c_int> {
        self.calls += 1;
        let all = self.calls;
        let of_all = |fault: &&Fault| fault.name == "*" && [0, all].contains(&fault.number);
        let found = self.wanted.iter().find(of_all).map(|fault| fault.code);
        self.injected += u64::from(found.is_some());
        found.or(self.at(name))
    }

    /// The code of what is to happen now that `name` has come once more.
    pub fn at(&mut self, name: &'static str) -> Option<c_int> {
        let count = self.counts.entry(name).or_default();
        *count += 1;
        let count = *count;
        let hit = |fault: &&Fault| fault.name == name && [0, count].contains(&fault.number);
        let found = self.wanted.iter().find(hit).map(|fault| fault.code);
        self.injected += u64::from(found.is_some());
        found
    }

    /// Whether something holds as long as these faults do.
    pub fn holds(&self, name: &str) -> bool {
        self.wanted.iter().any(|fault| fault.name == name)
    }
}
