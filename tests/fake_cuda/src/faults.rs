//! Failures on demand: any call, or any operation when it runs, can be made to fail.
//!
//! A fault is written `FUNCTION:NUMBER:CODE` or `FUNCTION:NUMBER:CODE:sticky`: the NUMBER-th call,
//! from 1, of the function fails with the code; `*` stands for all functions together, `operation`
//! for operations when they run. NUMBER 0 lets every call fail. With `sticky`, or with a code that
//! is so by itself, the current context (of an operation: its own) is of no more use. Several
//! faults are separated by commas.

use std::collections::HashMap;

use crate::codes::Code;
use crate::driver::Driver;

struct Fault {
    function: String,
    number: u64,
    code: Code,
    sticky: bool,
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
    /// Faults as the environment gives them. Text that is none ends the process.
    pub fn new(text: Option<&str>) -> Faults {
        let mut faults = Faults::default();
        if let Some(text) = text
            && faults.set(text).is_err()
        {
            eprintln!("fake-cuda: FAKE_CUDA_FAULT={text} is not FUNCTION:NUMBER:CODE[:sticky],...");
            std::process::abort();
        }
        faults
    }

    /// Sets what is to fail, and counts calls from zero. An empty text sets nothing.
    pub fn set(&mut self, text: &str) -> Result<(), ()> {
        let mut wanted = vec![];
        for fault in text.split(',').filter(|fault| !fault.is_empty()) {
            let parts: Vec<&str> = fault.split(':').collect();
            let (function, number, code, sticky) = match parts[..] {
                [function, number, code] => (function, number, code, false),
                [function, number, code, "sticky"] => (function, number, code, true),
                _ => return Err(()),
            };
            let code = Code(code.parse().map_err(drop)?);
            let number = number.parse().map_err(drop)?;
            let sticky = sticky || code.is_sticky();
            wanted.push(Fault { function: function.into(), number, code, sticky });
        }
        *self = Faults { wanted, ..Faults::default() };
        Ok(())
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
    fn meet(&mut self, function: &'static str) -> Option<(Code, bool)> {
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
        Some((hit.code, hit.sticky))
    }
}

impl Driver {
    /// The failure that this call is to meet, if any. The error of an operation always breaks its
    /// context: there is no call that could return it otherwise.
    pub fn fault_in(&mut self, function: &'static str) -> Option<Code> {
        let (code, sticky) = self.faults.meet(function)?;
        if sticky
            && function != "operation"
            && let Ok(context) = self.current()
        {
            self.fail_context(context, code);
        }
        Some(code)
    }
}
