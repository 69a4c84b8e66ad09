//! Checksums in saved files and texts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A CRC-32, as in zip files. Saved files and texts have it as eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Crc32(pub u32);

impl Crc32 {
    /// The checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> Crc32 {
        Crc32(crc32fast::hash(bytes))
    }
}

impl fmt::Display for Crc32 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

impl From<Crc32> for String {
    fn from(checksum: Crc32) -> String {
        checksum.to_string()
    }
}

impl TryFrom<String> for Crc32 {
    type Error = &'static str;

    /// Accepts a checksum only as it is written, without capitals or signs.
    fn try_from(text: String) -> Result<Crc32, &'static str> {
        let checksum = u32::from_str_radix(&text, 16).map(Crc32);
        checksum
            .ok()
            .filter(|checksum| checksum.to_string() == text)
            .ok_or("a checksum has eight hexadecimal digits, in lower case")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read_as_they_are_written() {
        for checksum in [Crc32(0), Crc32(0xab), Crc32(u32::MAX), Crc32::of(b"text")] {
            let text = serde_json::to_string(&checksum).unwrap();
            assert_eq!(text.len(), 10, "{text}");
            assert_eq!(serde_json::from_str::<Crc32>(&text).unwrap(), checksum);
        }
        assert_eq!(Crc32::of(b"123456789"), Crc32(0xcbf4_3926));
        for text in ["", "ab", "+00000ab", "000000AB", "0000000ab", "0000000g"] {
            assert!(Crc32::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Crc32>("171").is_err());
    }
}
