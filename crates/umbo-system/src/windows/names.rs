//! Names of files: texts of Unicode, which programs in C have as UTF-8.

use std::ffi::OsStr;

/// The bytes of a name or a path: UTF-8, unless it is not a text of Unicode.
#[inline]
pub fn bytes(name: &OsStr) -> &[u8] {
    name.as_encoded_bytes()
}

/// The name or path of these bytes. None if they are not UTF-8.
#[inline]
pub fn from_bytes(bytes: &[u8]) -> Option<&OsStr> {
    std::str::from_utf8(bytes).ok().map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_utf_8() {
        let name = "größe-模型.npz";
        assert_eq!(from_bytes(name.as_bytes()), Some(OsStr::new(name)));
        assert_eq!(bytes(OsStr::new(name)), name.as_bytes());
        assert_eq!(from_bytes(b"gr\xf6\xdfe"), None);
    }
}
