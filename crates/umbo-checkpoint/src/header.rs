//! The header of a file: what safetensors prescribes, and entries of Umbo's in its metadata.
//!
//! Safetensors has texts alone in the metadata. One entry is a text of JSON, a
//! [`CheckpointMetadata`]; the other is the checksum of this text. So a file tells damage from
//! another version, whatever a later version of the format writes. The rest of the header needs no
//! checksum: the text has the dtype and the shape of each tensor and the checksum of its elements.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::metadata::{AnyMetadata, CheckpointMetadata, FORMAT, SavedTensor};
use crate::numbers::Count;
use crate::snapshot::Snapshot;
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_input::sources::file::damaged;
use umbo_tensor::DType;

/// The name of the entry with the text.
const CHECKPOINT: &str = "umbo.checkpoint";

/// The name of the entry with the checksum of the text.
const CHECKSUM: &str = "umbo.crc32";

/// An entry of files for other programs: Hugging Face's libraries refuse a file with metadata that
/// names none of the frameworks that they know.
const FRAMEWORK: (&str, &str) = ("format", "pt");

/// The longest header that is read. The limit is that of the `safetensors` crate.
pub(super) const LONGEST: u64 = 100_000_000;

/// The number of bytes before the header. They contain its length.
pub(super) const LENGTH_BYTES: usize = 8;

/// A header as safetensors prescribes it. Umbo's readers use the crate's own type.
#[derive(Serialize)]
struct Header<'a> {
    #[serde(rename = "__metadata__")]
    metadata: BTreeMap<&'a str, String>,
    #[serde(flatten)]
    tensors: BTreeMap<&'a str, TensorInfo>,
}

/// The bytes of a file before the elements: the length and the header.
pub(super) struct EncodedHeader {
    pub bytes: Vec<u8>,
    /// The checksum of Umbo's entry. It stands for all contents of the file.
    pub crc32: Crc32,
}

/// The header of a file that has the tensors of a snapshot, in their order, with these checksums.
pub(super) fn encode(snapshot: &Snapshot, checksums: &[Crc32]) -> Result<EncodedHeader> {
    let mut infos = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    let mut end = 0;
    for ((name, tensor), &crc32) in snapshot.tensors.iter().zip(checksums) {
        let start = end;
        end += tensor.shape().bytes(tensor.dtype())?;
        let dtype = file_dtype(tensor.dtype());
        let shape = tensor.shape().to_vec();
        let saved = SavedTensor {
            dtype: dtype.to_string(),
            shape: shape.clone(),
            crc32,
        };
        let data_offsets = (start, end);
        let info = TensorInfo {
            dtype,
            shape,
            data_offsets,
        };
        tensors.insert(name.clone(), saved);
        infos.insert(&name[..], info);
    }
    let is_whole = snapshot.parts.is_empty();
    let checkpoint = CheckpointMetadata {
        format: FORMAT,
        library: env!("CARGO_PKG_VERSION").to_owned(),
        steps: Count(snapshot.steps),
        objects: snapshot.objects.clone(),
        tensors,
        manager: snapshot.manager.clone(),
        parts: snapshot.parts.clone(),
        // A part has its rank's elements alone, of which the file knows the place.
        sharded: if is_whole {
            BTreeMap::new()
        } else {
            snapshot.sharded.clone()
        },
    };
    let text = serde_json::to_string(&checkpoint).map_err(unwritten)?;
    let crc32 = Crc32::of(text.as_bytes());
    let mut metadata = BTreeMap::from([(CHECKPOINT, text), (CHECKSUM, crc32.to_string())]);
    if snapshot.is_for_others {
        metadata.insert(FRAMEWORK.0, FRAMEWORK.1.to_owned());
    }
    let header = Header {
        metadata,
        tensors: infos,
    };
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, &header).map_err(unwritten)?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    let length = (bytes.len() - LENGTH_BYTES) as u64;
    if length > LONGEST {
        let problem = format!("its header would have {length} bytes; at most {LONGEST}");
        return Err(Error::beyond_limit(problem));
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(EncodedHeader { bytes, crc32 })
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::Internal(format!("the header of a checkpoint: {error}"))
}

/// A header that was read.
pub(super) struct ParsedHeader {
    pub metadata: Metadata,
    /// The dtypes that the format does not know, by the names of their tensors. In the metadata
    /// such a tensor consists of bytes, so that the others can be read.
    pub foreign: HashMap<String, String>,
}

/// Parses a header.
pub(super) fn parse(text: &str) -> Result<ParsedHeader, serde_json::Error> {
    let error = match serde_json::from_str(text) {
        Ok(metadata) => {
            return Ok(ParsedHeader {
                metadata,
                foreign: HashMap::new(),
            });
        }
        Err(error) => error,
    };
    let mut foreign = HashMap::new();
    let Ok(mut entries) = serde_json::from_str::<Map<String, Json>>(text) else {
        return Err(error);
    };
    for (name, entry) in &mut entries {
        let Some(dtype) = entry.get("dtype").and_then(Json::as_str).map(str::to_owned) else {
            continue;
        };
        let offset = |index: usize| entry["data_offsets"][index].as_u64();
        if Dtype::deserialize(&entry["dtype"]).is_err()
            && let (Some(start), Some(end)) = (offset(0), offset(1))
        {
            entry["shape"] = json!([end.saturating_sub(start)]);
            entry["dtype"] = json!("U8");
            foreign.insert(name.clone(), dtype);
        }
    }
    match serde_json::from_value(Json::Object(entries)) {
        Ok(metadata) if !foreign.is_empty() => Ok(ParsedHeader { metadata, foreign }),
        _ => Err(error),
    }
}

/// Umbo's entries in the header of a file.
pub(super) struct OwnMetadata {
    pub checkpoint: CheckpointMetadata,
    /// The checksum of the text that it was read from.
    pub crc32: Crc32,
}

impl OwnMetadata {
    /// Umbo's entries in the header of the file at `path`. None if the file has none.
    ///
    /// DATA_LOSS if they are damaged, or do not fit the header. UNIMPLEMENTED: a later version of
    /// the format.
    pub(super) fn read(path: &Path, header: &ParsedHeader) -> Result<Option<OwnMetadata>> {
        let entries = header.metadata.metadata().as_ref();
        let entry = |name: &str| entries.and_then(|entries| entries.get(name));
        let (text, digits) = match (entry(CHECKPOINT), entry(CHECKSUM)) {
            (None, None) => return Ok(None),
            (Some(text), Some(digits)) => (text, digits),
            (Some(_), None) => return Err(incomplete(path, CHECKPOINT, CHECKSUM)),
            (None, Some(_)) => return Err(incomplete(path, CHECKSUM, CHECKPOINT)),
        };
        let crc32 = Crc32::of(text.as_bytes());
        if crc32.to_string() != *digits {
            let problem = format!("damaged: its metadata has checksum {crc32}, and not '{digits}'");
            return Err(damaged(path, problem));
        }
        let unread = |error| damaged(path, format!("damaged: its metadata: {error}"));
        let AnyMetadata { format } = serde_json::from_str(text).map_err(unread)?;
        if format != FORMAT {
            return Err(Error::Unimplemented(format!(
                "'{}': version {format} of the format; this library reads {FORMAT}",
                path.display()
            )));
        }
        let checkpoint: CheckpointMetadata = serde_json::from_str(text).map_err(unread)?;
        header.check(path, &checkpoint)?;
        Ok(Some(OwnMetadata { checkpoint, crc32 }))
    }

    /// The checksum of a tensor in the file itself.
    pub(super) fn checksum_of(&self, tensor: &str) -> Option<Crc32> {
        self.checkpoint.tensors.get(tensor).map(|saved| saved.crc32)
    }
}

impl ParsedHeader {
    /// Checks that the header has the tensors that Umbo's metadata name, and no others.
    fn check(&self, path: &Path, checkpoint: &CheckpointMetadata) -> Result<()> {
        let found = self.metadata.tensors();
        let mut names = found.keys().chain(checkpoint.tensors.keys());
        let differs = |name: &&String| {
            let Some((info, saved)) = found.get(*name).zip(checkpoint.tensors.get(*name)) else {
                return true;
            };
            match self.foreign.get(*name) {
                Some(dtype) => *dtype != saved.dtype,
                None => info.dtype.to_string() != saved.dtype || info.shape != saved.shape,
            }
        };
        match names.find(differs) {
            None => Ok(()),
            Some(name) => Err(damaged(
                path,
                format!(
                    "damaged, or rewritten: its header and Umbo's metadata differ in tensor \
                     '{name}'; a program that changes the tensors of a checkpoint leaves out the \
                     metadata '{CHECKPOINT}' and '{CHECKSUM}', and variables can be loaded from \
                     what it writes"
                ),
            )),
        }
    }
}

fn incomplete(path: &Path, found: &str, missing: &str) -> Error {
    damaged(
        path,
        format!("damaged: its metadata have '{found}' and not '{missing}'"),
    )
}

/// The name of a dtype in files.
pub(super) fn file_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::Float16 => Dtype::F16,
        DType::BFloat16 => Dtype::BF16,
        DType::Float32 => Dtype::F32,
        DType::Float64 => Dtype::F64,
        DType::Int8 => Dtype::I8,
        DType::Int16 => Dtype::I16,
        DType::Int32 => Dtype::I32,
        DType::Int64 => Dtype::I64,
        DType::UInt8 => Dtype::U8,
        DType::UInt16 => Dtype::U16,
        DType::UInt32 => Dtype::U32,
        DType::UInt64 => Dtype::U64,
    }
}
