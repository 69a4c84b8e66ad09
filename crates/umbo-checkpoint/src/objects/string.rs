//! Strings of the caller, which the checkpoint itself stores.

use serde::{Deserialize, Serialize};

use crate::saveable::{Names, ObjectReader, ObjectRecord, PreparedRestore, Ready, Saveable};
use parking_lot::Mutex;
use umbo_base::error::Result;

/// The longest string, in bytes. A header with several of them is still a small part of what the
/// format allows.
pub const LONGEST_STRING: usize = 1 << 20;

/// The kind of strings in files.
pub(crate) const KIND: &str = "string";

/// The memory of a string.
pub struct StringCell(pub(crate) Mutex<String>);

/// The properties of a string in a file.
#[derive(Serialize, Deserialize)]
pub(crate) struct SavedString {
    pub(crate) value: StringValue,
}

/// A string within the limit of length, and without a NUL, which would end it in C.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct StringValue(pub(crate) String);

impl TryFrom<String> for StringValue {
    type Error = String;

    fn try_from(value: String) -> Result<StringValue, String> {
        if value.len() > LONGEST_STRING {
            return Err(format!(
                "has {} bytes; at most {LONGEST_STRING} are expected",
                value.len()
            ));
        }
        match value.find('\0') {
            None => Ok(StringValue(value)),
            Some(at) => Err(format!(
                "has a NUL at byte {at}; text without one is expected"
            )),
        }
    }
}

impl Saveable for StringCell {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn string(&self) -> Option<&Mutex<String>> {
        Some(&self.0)
    }

    fn save(&self, _names: &Names<'_>, record: &mut ObjectRecord) -> Result<()> {
        let value = StringValue(self.0.lock().clone());
        record.properties(&SavedString { value })
    }

    fn prepare<'a>(&'a self, _names: &Names<'_>, saved: &mut ObjectReader<'_>) -> Ready<'a> {
        let found: Option<SavedString> = saved.properties();
        Ok(found.map(|SavedString { value }| {
            PreparedRestore::by(move |_| {
                *self.0.lock() = value.0;
                Ok(())
            })
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_files_are_checked() {
        let parsed = |value: &str| {
            let text = serde_json::json!({ "value": value }).to_string();
            serde_json::from_str::<SavedString>(&text).map(|saved| saved.value.0)
        };
        let longest = "n".repeat(LONGEST_STRING);
        for value in ["", "\u{e4}\n\"", &longest] {
            assert_eq!(parsed(value).unwrap(), value);
        }
        for (value, problem) in [("a\0b", "a NUL at byte 1"), (&(longest + "n"), "at most")] {
            let error = parsed(value).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(serde_json::from_str::<SavedString>(r#"{"value": 3}"#).is_err());
    }
}
