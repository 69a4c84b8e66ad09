//! Reads headers in the form in which programs write them: no blanks within, and of each tensor
//! dtype, shape and offsets in this order. This takes a tenth of the time in which a parser of any
//! JSON reads the tensors. What has another form is left to that parser, which also says what is
//! wrong with it.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorInfo};
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};

use crate::header::{METADATA, Tensors};

/// The texts and the tensors of a header.
pub(super) type Scanned = (HashMap<String, String>, Tensors);

/// Scans a header. None if it has another form, or is wrong.
pub(super) fn scan(text: &str) -> Option<Scanned> {
    let mut scanner = Scanner {
        rest: text,
        dtype: ("", Dtype::U8),
    };
    let mut metadata = HashMap::new();
    // Few names and numbers are so short that there are more.
    let mut tensors = Tensors::with_capacity((text.len() / 96).min(MOST_RESERVED));
    scanner.take("{")?;
    let mut name = scanner.text()?;
    if name == METADATA {
        scanner.take(":")?;
        metadata = scanner.texts()?;
        scanner.take(",")?;
        name = scanner.text()?;
    }
    loop {
        if name == METADATA {
            return None;
        }
        // Of two tensors with one name the last one counts.
        tensors.insert(name.to_owned(), scanner.tensor()?);
        if scanner.take(",").is_none() {
            break;
        }
        name = scanner.text()?;
    }
    scanner.take("}")?;
    let is_over = scanner.rest.bytes().all(|byte| byte == b' ');
    is_over.then_some((metadata, tensors))
}

/// For how many tensors there is room at once, whatever a header says.
const MOST_RESERVED: usize = 1 << 14;

struct Scanner<'t> {
    rest: &'t str,
    /// The last dtype, which is usually the next one, too.
    dtype: (&'t str, Dtype),
}

impl<'t> Scanner<'t> {
    fn take(&mut self, expected: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(expected)?;
        Some(())
    }

    /// A text between quotation marks, without anything that must be written otherwise.
    fn text(&mut self) -> Option<&'t str> {
        self.take("\"")?;
        let is_special = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
        let end = self.rest.bytes().position(is_special)?;
        let (text, behind) = self.rest.split_at(end);
        self.rest = behind.strip_prefix('"')?;
        Some(text)
    }

    /// An object of texts, in any form.
    fn texts(&mut self) -> Option<HashMap<String, String>> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter();
        let texts = values.next()?.ok()?;
        self.rest = &self.rest[values.byte_offset()..];
        Some(texts)
    }

    /// A colon, and what is behind the name of a tensor.
    fn tensor(&mut self) -> Option<TensorInfo> {
        self.take(":{\"dtype\":")?;
        let name = self.text()?;
        if name != self.dtype.0 {
            let known = Dtype::deserialize(StrDeserializer::<Error>::new(name));
            self.dtype = (name, known.ok()?);
        }
        self.take(",\"shape\":[")?;
        let mut shape = Vec::new();
        if self.take("]").is_none() {
            loop {
                shape.push(self.number()?);
                if self.take(",").is_none() {
                    break;
                }
            }
            self.take("]")?;
        }
        self.take(",\"data_offsets\":[")?;
        let start = self.number()?;
        self.take(",")?;
        let data_offsets = (start, self.number()?);
        self.take("]}")?;
        Some(TensorInfo {
            dtype: self.dtype.1,
            shape,
            data_offsets,
        })
    }

    /// A whole number without a sign.
    fn number(&mut self) -> Option<usize> {
        let is_other = |byte: u8| !byte.is_ascii_digit();
        let end = self.rest.bytes().position(is_other)?;
        let (digits, behind) = self.rest.split_at(end);
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        self.rest = behind;
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"__metadata__":{"a\n":"\"b","format":"pt"},"w/é":{"dtype":"F32","shape":[2,3],"#,
        r#""data_offsets":[0,24]},"b":{"dtype":"F32","shape":[],"data_offsets":[24,28]},"#,
        r#""c":{"dtype":"U8","shape":[10,0],"data_offsets":[28,28]}}   "#,
    );

    /// The texts and the tensors that a parser of any JSON finds.
    fn parsed(text: &str) -> Option<Scanned> {
        #[derive(Deserialize)]
        struct Header {
            __metadata__: Option<HashMap<String, String>>,
            #[serde(flatten)]
            tensors: HashMap<String, TensorInfo>,
        }
        let Header {
            __metadata__: metadata,
            tensors,
        } = serde_json::from_str(text).ok()?;
        Some((metadata.unwrap_or_default(), tensors.into_iter().collect()))
    }

    fn of(scanned: Option<Scanned>) -> Option<String> {
        let (metadata, tensors) = scanned?;
        let mut texts: Vec<_> = metadata.into_iter().collect();
        texts.sort();
        let mut tensors: Vec<_> = tensors.into_iter().collect();
        tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(format!("{texts:?} {tensors:?}"))
    }

    #[test]
    fn what_is_scanned_is_what_a_parser_finds() {
        let whole = of(scan(HEADER));
        assert!(whole.is_some() && whole == of(parsed(HEADER)));
        let mut scanned = 0;
        for place in 0..HEADER.len() {
            let insert = |byte: &[u8], behind: usize| {
                let [start, end] = [&HEADER.as_bytes()[..place], &HEADER.as_bytes()[behind..]];
                String::from_utf8([start, byte, end].concat()).ok()
            };
            let bytes = b"\"\\{}[]:,0179-+. \n\tabeFnu_\0";
            let others = bytes.iter().flat_map(|byte| {
                let replaced = insert(&[*byte], place + 1);
                replaced.into_iter().chain(insert(&[*byte], place))
            });
            for text in others
                .chain(insert(&[], place + 1))
                .chain(insert(&[], HEADER.len()))
            {
                if let Some(found) = of(scan(&text)) {
                    assert_eq!(Some(found), of(parsed(&text)), "{text}");
                    scanned += 1;
                }
            }
        }
        assert!(scanned > 1000, "{scanned}");
        for other in [
            r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{}}"#,
            r#"{ "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            r#"{"a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}}"#,
            r#"{"a\u0041":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#,
            r#"{}"#,
        ] {
            assert!(scan(other).is_none() && parsed(other).is_some(), "{other}");
        }
        let a = |shape| format!(r#""a":{{"dtype":"U8","shape":[{shape}],"data_offsets":[0,1]}}"#);
        let twice = format!("{{{},{}}}", a(""), a("1"));
        assert!(scan(&twice).is_some_and(|(_, tensors)| tensors["a"].shape == [1]));
        let large = HEADER.replace("24,28", "24,99999999999999999999");
        assert!(scan(&large).is_none());
    }
}
