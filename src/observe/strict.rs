//! Whether this process is strict: what is merely suspicious elsewhere is an error here.
//!
//! A strategy can be made strict by its options, too; this is for whole processes, and for what belongs
//! to no strategy.

use std::ffi::OsStr;
use std::sync::OnceLock;

use super::log::{self, Level};

/// The environment variable that makes every strategy of the process strict.
pub const VARIABLE: &str = "UMBO_STRICT";

/// What the variable says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    On,
    Off,
    /// Something else, which counts as off.
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

/// Read once, so that it is the same for the whole life of the process.
fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get().unwrap_or_else(|| {
        // Before others are kept waiting: in the child of a fork the thread that reads may be missing.
        let setting = setting_of(std::env::var_os(VARIABLE).as_deref());
        SETTING.get_or_init(|| setting)
    })
}

/// Whether the environment makes this process strict.
pub fn is_on() -> bool {
    *setting() == Setting::On
}

/// Tells the log if the variable has a value that means nothing.
pub fn complain_of_variable() {
    if let Setting::Unknown(text) = setting() {
        log::log(Level::Warning, || {
            format!(
                "{VARIABLE} is '{text}', which means nothing and counts as 0: 1 makes every strategy strict, \
                 0 leaves it to their options"
            )
        });
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
