//! Numbers of the caller, and numbers in the JSON of a file.

use serde::{Deserialize, Serialize};

/// A number of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
}

/// A floating-point number in a file, with all its bits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "FloatText", try_from = "FloatText")]
pub(super) struct Float(pub f64);

/// JSON has no infinities and no NaN: these are their bits, in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum FloatText {
    Finite(f64),
    Bits(String),
}

impl From<Float> for FloatText {
    fn from(Float(value): Float) -> FloatText {
        match value.is_finite() {
            true => FloatText::Finite(value),
            false => FloatText::Bits(text_of(value)),
        }
    }
}

impl TryFrom<FloatText> for Float {
    type Error = String;

    fn try_from(text: FloatText) -> Result<Float, String> {
        let bits = match text {
            FloatText::Finite(value) => return Ok(Float(value)),
            FloatText::Bits(bits) => bits,
        };
        let value = bits
            .strip_prefix("0x")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(f64::from_bits);
        match value.filter(|value| !value.is_finite() && text_of(*value) == bits) {
            Some(value) => Ok(Float(value)),
            None => Err(format!(
                "'{bits}' where the bits of an infinity or a NaN are expected"
            )),
        }
    }
}

fn text_of(value: f64) -> String {
    format!("{:#018x}", value.to_bits())
}

/// A finite number in a file that is 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Float", try_from = "Float")]
pub(super) struct NonNegative(pub f64);

impl From<NonNegative> for Float {
    fn from(NonNegative(value): NonNegative) -> Float {
        Float(value)
    }
}

impl TryFrom<Float> for NonNegative {
    type Error = String;

    fn try_from(Float(value): Float) -> Result<NonNegative, String> {
        match value.is_finite() && value >= 0.0 {
            true => Ok(NonNegative(value)),
            false => Err(format!("{value} where a number of at least 0 is expected")),
        }
    }
}

/// A whole number in a file that is small enough to count steps and updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u64", try_from = "u64")]
pub(super) struct Count(pub u64);

impl From<Count> for u64 {
    fn from(Count(count): Count) -> u64 {
        count
    }
}

impl TryFrom<u64> for Count {
    type Error = String;

    fn try_from(count: u64) -> Result<Count, String> {
        match count < 1 << 53 {
            true => Ok(Count(count)),
            false => Err(format!("{count} where a count below 2^53 is expected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_bits() {
        let nan = f64::from_bits(0x7ff8_0000_0000_1234);
        for value in [
            0.0,
            -0.0,
            0.1,
            1e300,
            5e-324,
            f64::INFINITY,
            f64::NEG_INFINITY,
            nan,
            3.0,
        ] {
            let text = serde_json::to_string(&Float(value)).unwrap();
            let Float(read) = serde_json::from_str(&text).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        }
        let infinity = serde_json::to_string(&Float(f64::INFINITY)).unwrap();
        assert_eq!(infinity, r#""0x7ff0000000000000""#);
        for text in [
            "null",
            r#""inf""#,
            r#""0x7ff""#,
            r#""0x+ff0000000000000""#,
            r#""0x7FF0000000000000""#,
            r#""0x3ff0000000000000""#,
            "[1]",
        ] {
            assert!(serde_json::from_str::<Float>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for text in ["-1", "-0.5", r#""0x7ff0000000000000""#] {
            assert!(serde_json::from_str::<NonNegative>(text).is_err(), "{text}");
        }
        assert_eq!(serde_json::from_str::<NonNegative>("0").unwrap().0, 0.0);
        for text in ["-1", "1.5", "9007199254740992", "\"1\""] {
            assert!(serde_json::from_str::<Count>(text).is_err(), "{text}");
        }
        assert_eq!(
            serde_json::from_str::<Count>("9007199254740991").unwrap().0,
            (1 << 53) - 1
        );
    }
}
