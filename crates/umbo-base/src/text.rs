//! Names that C also reads.

use std::borrow::Borrow;
use std::ffi::CStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The name of a kind with its article: `a tensor`, `an iterator`. A plural (`metrics`) has none.
pub fn with_article(kind: &str) -> String {
    let article = match kind.chars().next() {
        _ if kind.ends_with('s') => "",
        Some('a' | 'e' | 'i' | 'o') => "an ",
        _ => "a ",
    };
    format!("{article}{kind}")
}

/// The start of a text from outside, escaped for a message.
pub fn shortened(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut start: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        start.push_str("...");
    }
    start
}

/// A text that ends in a NUL, so that C can read it in place. Cloning makes another reference to
/// the same characters, which stay in place as long as a reference exists.
///
/// For C, a NUL inside the text would end it early, so it is replaced by a visible sign. Formatted
/// for a message, control characters are escaped, the ends of lines among them, so that no name
/// looks like a message of its own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(Arc<str>);

impl Text {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.0[..self.0.len() - 1]
    }

    /// The characters and the NUL.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(self.0.as_bytes()).unwrap_or_default()
    }
}

impl From<String> for Text {
    fn from(mut text: String) -> Text {
        if text.contains('\0') {
            text = text.replace('\0', "\u{2400}");
        }
        text.push('\0');
        Text(text.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        let mut copy = String::with_capacity(text.len() + 1);
        copy.push_str(text);
        copy.into()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// Texts are ordered like their characters: the NUL, at the end of each text, comes before all
/// other characters.
impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

/// The hash is that of the characters, so that a table finds a text by its characters alone.
impl Hash for Text {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_str().hash(hasher);
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.contains(char::is_control) {
            return self.as_str().fmt(formatter);
        }
        let shown = |letter: char| match letter.is_control() {
            true => letter.escape_default().to_string(),
            false => letter.to_string(),
        };
        self.chars().map(shown).collect::<String>().fmt(formatter)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_articles() {
        let kinds = [
            "variable",
            "optimizer",
            "iterator",
            "uint8",
            "gradients",
            "metrics",
            "",
        ];
        let said = [
            "a variable",
            "an optimizer",
            "an iterator",
            "a uint8",
            "gradients",
            "metrics",
            "a ",
        ];
        assert_eq!(kinds.map(with_article), said);
    }

    #[test]
    fn names_in_messages_are_escaped() {
        let name = Text::from("a\u{1b}[31m\numbo: ERROR: \u{9b}");
        assert_eq!(name.to_string(), "a\\u{1b}[31m\\numbo: ERROR: \\u{9b}");
        assert_eq!(format!("{:>3}", Text::from("w\u{e4}")), " w\u{e4}");
        assert_eq!(name.as_str(), "a\u{1b}[31m\numbo: ERROR: \u{9b}");
    }

    #[test]
    fn texts_end_in_one_nul() {
        let text = Text::from("w\u{e4}");
        assert_eq!(text.as_str(), "w\u{e4}");
        assert_eq!(text.as_c_str().to_str(), Ok("w\u{e4}"));
        assert_eq!(Text::from("a\0b").as_c_str(), c"a\u{2400}b");
        assert_eq!(Text::from("").as_c_str(), c"");
        let shorter = Text::from("a");
        let longer = Text::from("ab");
        assert!(shorter < longer);
        assert_eq!(text.clone().as_c_str().as_ptr(), text.as_c_str().as_ptr());
    }
}
