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
    pub objects: BTreeMap<String, SavedObject>,
    /// The tensors of this file itself, not of its parts.
    pub tensors: BTreeMap<String, SavedTensor>,
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

/// The dtype and the shape of a tensor, which the header also has, and the checksum of its bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedTensor {
    /// The dtype by its name in the format of safetensors.
    pub dtype: String,
    pub shape: Vec<usize>,
    pub crc32: Crc32,
}

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
