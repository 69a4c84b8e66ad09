//! Failures on demand: any call, or any operation when it runs, can be made to fail.
//!
//! A fault is written `FUNCTION:NUMBER:CODE`: the NUMBER-th call, from 1, of the function fails with the
//! code; `*` stands for all functions together, `operation` for operations when they run. NUMBER 0 lets
//! every call fail. With a sticky code the current context (of an operation: its own) is of no more use.
//! Several faults are separated by commas.

use std::collections::HashMap;

use crate::codes::Code;
use crate::driver::Driver;

struct Fault {
    function: String,
    number: u64,
    code: Code,
}

/// What is to fail, and how often each function was called.
#[derive(Default)]
pub struct Faults {
    wanted: Vec<Fault>,
    calls: HashMap<&'static str, u64>,
    all: u64,
    injected: u64,
}

impl Faults {
    /// Sets what is to fail, and counts calls from zero. An empty text sets nothing.
    pub fn set(&mut self, text: &str) -> Option<()> {
        let mut wanted = vec![];
        for fault in text.split(',').filter(|fault| !fault.is_empty()) {
            let mut parts = fault.split(':');
            let (function, number, code) = (parts.next()?.into(), parts.next()?, parts.next()?);
            let (number, code) = (number.parse().ok()?, Code(code.parse().ok()?));
            wanted.push(Fault { function, number, code });
        }
        *self = Faults { wanted, ..Faults::default() };
        Some(())
    }

    /// How often a function was called; with `*` all of them but operations.
    pub fn calls(&self, function: &str) -> u64 {
        match function {
            "*" => self.all,
            _ => self.calls.get(function).copied().unwrap_or(0),
        }
    }

    /// How many faults happened.
    pub fn injected(&self) -> u64 {
        self.injected
    }

    /// The fault that this call meets.
    fn meet(&mut self, function: &'static str) -> Option<Code> {
        let operation = function == "operation";
        let count = self.calls.entry(function).or_default();
        *count += 1;
        let count = *count;
        self.all += u64::from(!operation);
        let all = self.all;
        let hit = self.wanted.iter().find(|fault| {
            let number = match fault.function.as_str() {
                "*" if !operation => all,
                name if name == function => count,
                _ => return false,
            };
            fault.number == 0 || fault.number == number
        })?;
        self.injected += 1;
        Some(hit.code)
    }
}

impl Driver {
    /// The failure that this call is to meet, if any. The error of an operation always breaks its
    /// context: there is no call that could return it otherwise.
    pub fn fault_in(&mut self, function: &'static str) -> Option<Code> {
        let code = self.faults.meet(function)?;
        if code.is_sticky()
            && function != "operation"
            && let Ok(context) = self.current()
        {
            self.fail_context(context, code);
        }
        Some(code)
    }
}
