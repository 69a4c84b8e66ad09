//! The contents of a checkpoint that are not elements of tensors, as they are in the metadata of a
//! file.
//!
//! These structs are the format, which `docs/internals/formats.md` describes. A field that is not
//! known is ignored; one that is missing has a default if it was added later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::numbers::{Count, Float};
use crate::parts::PartFile;
use umbo_base::checksum::Crc32;
use umbo_tensor::Shape;

/// The version of the format. A file of another version is refused.
pub(super) const FORMAT: u64 = 1;

/// The field that all versions of the format have.
#[derive(Deserialize)]
pub(super) struct AnyMetadata {
    pub format: u64,
}

/// All that a checkpoint has beside the elements of its tensors.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointMetadata {
    pub format: u64,
    /// The version of the library that wrote the file, for people.
    #[serde(default)]
    pub library: String,
    /// The number of steps the strategy has begun.
    pub steps: Count,
    /// The objects, without the variables.
    pub objects: BTreeMap<String, SavedObject>,
    /// The variables: those tensors that are an object each, of their names. Runs of positions
    /// among the tensors of this file in the order of their names, each with the one behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<[usize; 2]>,
    /// The checksum of the names, dtypes and shapes of this file's tensors.
    pub tensors: Crc32,
    /// The checksums of the elements of this file's tensors, in the order of their names.
    pub elements: Checksums,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerNotes>,
    /// The parts of the other ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartFile>,
    /// The tensors that are divided among this file and its parts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sharded: BTreeMap<String, SavedSharding>,
}

/// The kind of an object, and its values that are not tensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedObject {
    pub(super) kind: String,
    #[serde(flatten)]
    pub(super) properties: Map<String, Json>,
}

/// Checksums in a row, as one text: thousands of short texts, each with a name, would take more
/// time than the elements that they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) struct Checksums(pub Vec<Crc32>);

impl From<Checksums> for String {
    fn from(Checksums(checksums): Checksums) -> String {
        let digits = checksums
            .iter()
            .flat_map(|checksum| (0..DIGITS).map(|digit| checksum.0 >> (28 - 4 * digit) & 15));
        digits
            .filter_map(|digit| char::from_digit(digit, 16))
            .collect()
    }
}

impl TryFrom<String> for Checksums {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Checksums, &'static str> {
        const EXPECTED: &str = "a checksum has eight hexadecimal digits, in lower case";
        let (all, rest) = text.as_bytes().as_chunks::<DIGITS>();
        let value = |digits: &[u8; DIGITS]| {
            digits.iter().try_fold(0, |value, digit| match digit {
                b'0'..=b'9' => Some(value << 4 | u32::from(digit - b'0')),
                b'a'..=b'f' => Some(value << 4 | u32::from(digit - b'a' + 10)),
                _ => None,
            })
        };
        let checksums: Option<Vec<Crc32>> =
            all.iter().map(|digits| value(digits).map(Crc32)).collect();
        let whole = checksums.filter(|_| rest.is_empty());
        whole.map(Checksums).ok_or(EXPECTED)
    }
}

/// The number of digits of a checksum.
const DIGITS: usize = 8;

/// A manager's notes about a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManagerNotes {
    pub(super) step: Count,
    /// The number of the save, which later saves in the folder exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) save: Option<Count>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metric: Option<Float>,
}

/// How several ranks divide a tensor: into parts that follow each other and together are the whole
/// tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ShardingFields", try_from = "ShardingFields")]
pub(super) struct SavedSharding {
    /// The shape of the whole tensor.
    pub shape: Shape,
    /// The boundaries of the parts, in elements.
    pub boundaries: Vec<usize>,
}

#[derive(Serialize, Deserialize)]
struct ShardingFields {
    shape: Vec<usize>,
    boundaries: Vec<usize>,
}

impl From<SavedSharding> for ShardingFields {
    fn from(sharding: SavedSharding) -> ShardingFields {
        ShardingFields {
            shape: sharding.shape.to_vec(),
            boundaries: sharding.boundaries,
        }
    }
}

impl TryFrom<ShardingFields> for SavedSharding {
    type Error = String;

    fn try_from(fields: ShardingFields) -> Result<SavedSharding, String> {
        let ShardingFields { shape, boundaries } = fields;
        let shape = Shape::new(&shape).map_err(|error| error.to_string())?;
        let is_whole = boundaries.first() == Some(&0)
            && boundaries.last() == Some(&shape.elements())
            && boundaries.is_sorted();
        match is_whole {
            true => Ok(SavedSharding { shape, boundaries }),
            false => Err(format!(
                "boundaries {boundaries:?}, which do not divide a tensor of shape {shape} into \
                 parts"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_in_a_row_are_read_as_they_are_written() {
        for checksums in [vec![], vec![0, 0xab, u32::MAX], vec![0xcbf4_3926; 3]] {
            let all: Vec<Crc32> = checksums.into_iter().map(Crc32).collect();
            let text: String = all.iter().map(Crc32::to_string).collect();
            assert_eq!(String::from(Checksums(all.clone())), text);
            assert_eq!(Checksums::try_from(text), Ok(Checksums(all)));
        }
        for text in [
            "0",
            "0000000",
            "000000AB",
            "+00000ab",
            "0000000 ",
            "000000000",
            "é00000ab",
        ] {
            assert!(Checksums::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
