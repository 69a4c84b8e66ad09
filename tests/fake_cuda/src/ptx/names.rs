//! What names stand for, where they stand.

use std::collections::HashMap;

use super::kernel::Register;
use super::types::Type;

#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    Register(Register, Type),
    /// An address in the space of the variable.
    Address(u64),
}

/// Names, those of inner braces before those of outer ones.
pub struct Names(Vec<HashMap<String, Meaning>>);

impl Names {
    pub fn new() -> Names {
        Names(vec![HashMap::new()])
    }

    pub fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    pub fn close(&mut self) {
        if self.0.len() > 1 {
            self.0.pop();
        }
    }

    pub fn set(&mut self, name: String, meaning: Meaning) {
        if let Some(inner) = self.0.last_mut() {
            inner.insert(name, meaning);
        }
    }

    pub fn get(&self, name: &str) -> Option<Meaning> {
        self.0.iter().rev().find_map(|names| names.get(name)).copied()
    }
}
