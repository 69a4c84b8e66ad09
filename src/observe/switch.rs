//! Environment variables that are on or off for the whole life of a process.

use std::ffi::OsStr;
use std::sync::OnceLock;

use super::log::{self, Level};

/// Enables a check of the first batch of each pass for equivalence.
pub static CHECK: Switch = Switch::new(
    "UMBO_CHECK",
    "1 checks the first batch of each pass for equivalence, 0 checks none",
);

/// A variable whose value is 1, or 0, empty or absent.
pub struct Switch {
    variable: &'static str,
    /// The effect of its values.
    meaning: &'static str,
    setting: OnceLock<Setting>,
}

/// The value of the variable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    On,
    Off,
    /// Another value, which counts as off.
    Unknown(String),
}

fn setting_of(text: Option<&OsStr>) -> Setting {
    let Some(text) = text else { return Setting::Off };
    match text.to_str() {
        Some("1") => Setting::On,
        Some("0" | "") => Setting::Off,
        _ => Setting::Unknown(text.to_string_lossy().into_owned()),
    }
}

impl Switch {
    /// The switch for the variable with this name. `meaning` describes the effect of 1 and 0.
    pub const fn new(variable: &'static str, meaning: &'static str) -> Switch {
        Switch { variable, meaning, setting: OnceLock::new() }
    }

    /// The variable is read once, so that the setting does not change during the life of the process.
    fn setting(&self) -> &Setting {
        self.setting.get_or_init(|| setting_of(std::env::var_os(self.variable).as_deref()))
    }

    /// Whether the variable is 1.
    pub fn is_on(&self) -> bool {
        *self.setting() == Setting::On
    }

    /// Logs a warning if the variable has an invalid value.
    pub fn warn(&self) {
        if let Setting::Unknown(text) = self.setting() {
            log::log(Level::Warning, || {
                let Switch { variable, meaning, .. } = self;
                format!("{variable} is '{text}', which means nothing and counts as 0: {meaning}")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_switches_on_and_what_is_unknown_does_not() {
        let of = |text: &str| setting_of(Some(OsStr::new(text)));
        assert_eq!((of("1"), of("0"), of(""), setting_of(None)), {
            (Setting::On, Setting::Off, Setting::Off, Setting::Off)
        });
        for text in ["2", "true", " 1", "on", "-1"] {
            assert_eq!(of(text), Setting::Unknown(text.into()));
        }
    }
}
