//! Environment variables that are on or off for the whole life of a process.

use std::sync::OnceLock;

use super::log::{self, Level};

/// Enables a check of the first batch of each pass for equivalence.
pub static CHECK: Switch = Switch::new(
    "UMBO_CHECK_STEPS",
    "1 checks the first batch of each pass and of each callback for equivalence, 0 checks none",
);

/// A variable whose value is 1, or 0, empty or absent.
pub struct Switch {
    variable: &'static str,
    /// The effect of its values.
    meaning: &'static str,
    /// Its value, once it was read.
    value: OnceLock<Option<String>>,
}

impl Switch {
    /// The switch for the variable with this name. `meaning` describes the effect of 1 and 0.
    pub const fn new(variable: &'static str, meaning: &'static str) -> Switch {
        Switch {
            variable,
            meaning,
            value: OnceLock::new(),
        }
    }

    /// The variable is read once, so that the setting does not change during the life of the
    /// process.
    fn value(&self) -> Option<&str> {
        let read = || std::env::var_os(self.variable).map(|text| text.to_string_lossy().into());
        self.value.get_or_init(read).as_deref()
    }

    /// Whether the variable is 1.
    pub fn is_on(&self) -> bool {
        self.value() == Some("1")
    }

    /// Logs a warning if the variable has an invalid value.
    pub fn warn(&self) {
        let Some(text) = self.value().filter(|text| !matches!(*text, "" | "0" | "1")) else {
            return;
        };
        log::log(Level::Warning, || {
            let Switch {
                variable, meaning, ..
            } = self;
            format!("{variable} is '{text}', neither 0 nor 1, and is taken as 0: {meaning}")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_1_switches_on() {
        let is_on = |text: Option<&str>| {
            let value = OnceLock::from(text.map(str::to_owned));
            Switch {
                variable: "",
                meaning: "",
                value,
            }
            .is_on()
        };
        assert!(is_on(Some("1")));
        for text in ["", "0", "2", "true", " 1", "on", "-1"]
            .map(Some)
            .into_iter()
            .chain([None])
        {
            assert!(!is_on(text), "{text:?}");
        }
    }
}
