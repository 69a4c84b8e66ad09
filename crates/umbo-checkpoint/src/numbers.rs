//! Numbers of the caller, and numbers in the JSON of a file.

use serde_json::Value as Json;

/// A number of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
}

/// A number as JSON, from which [`read_number`] makes the same bits. A number that is not finite
/// becomes a text that contains its bits.
pub fn number(value: f64) -> Json {
    let finite = serde_json::Number::from_f64(value).map(Json::Number);
    finite.unwrap_or_else(|| Json::String(format!("{value} ({:#018x})", value.to_bits())))
}

/// The number from which [`number`] made `json`.
pub fn read_number(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => {
            let (_, bits) = text.split_once("(0x")?;
            u64::from_str_radix(bits.strip_suffix(')')?, 16)
                .ok()
                .map(f64::from_bits)
        }
        _ => None,
    }
}

/// A whole number in the file that is small enough to count steps and updates.
pub fn read_count(json: &Json) -> Option<u64> {
    json.as_u64().filter(|&count| count < 1 << 53)
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
            let text = number(value).to_string();
            let read = read_number(&serde_json::from_str(&text).unwrap()).unwrap();
            assert_eq!(read.to_bits(), value.to_bits(), "{text}");
        }
        assert_eq!(read_number(&Json::Null), None);
        assert_eq!(read_number(&Json::String("inf".into())), None);
    }
}
