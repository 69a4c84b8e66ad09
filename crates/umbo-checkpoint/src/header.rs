//! The header of a file: what safetensors prescribes, and Umbo's entry in its metadata.
//!
//! The metadata has one entry, `umbo`, which is again JSON: the format's version, checksums, the
//! number of the last step, and for each object its kind and its values that are not tensors. See
//! `docs/checkpoints.md`.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::{Map, Value as Json, json};

use crate::numbers::read_count;
use crate::parts::PartFile;
use crate::snapshot::{SavedSharding, Snapshot};
use umbo_base::error::{Error, Result};
use umbo_tensor::{DType, Shape};

/// The version of Umbo's entry. A reader refuses later versions.
pub(super) const FORMAT: u64 = 1;

/// The beginning of each header that Umbo writes. Eight digits of its checksum follow.
pub(super) const START: &str = r#"{"__metadata__":{"umbo":"{\"checksums\":{\"header\":\""#;

/// The longest header that is read. The limit is that of the `safetensors` crate.
pub(super) const LONGEST: u64 = 100_000_000;

/// The number of bytes before the header. They contain its length.
pub(super) const LENGTH_BYTES: usize = 8;

/// The length and the header of a file that has the tensors of a snapshot, in their order, with
/// these checksums. Also returns the checksum of both.
pub(super) fn encode(snapshot: &Snapshot, checksums: &[u32]) -> Result<(Vec<u8>, u32)> {
    let mut infos = Vec::new();
    let mut end = 0;
    let mut of_tensors = Map::new();
    for ((name, tensor), checksum) in snapshot.tensors.iter().zip(checksums) {
        let start = end;
        end += tensor.shape().bytes(tensor.dtype())?;
        let info = TensorInfo {
            dtype: file_dtype(tensor.dtype()),
            shape: tensor.shape().to_vec(),
            data_offsets: (start, end),
        };
        infos.push((name.clone(), info));
        of_tensors.insert(name.clone(), Json::String(digits(*checksum)));
    }
    let mut own = json!({
        "checksums": { "header": digits(0), "tensors": of_tensors },
        "format": FORMAT,
        "library": env!("CARGO_PKG_VERSION"),
        "objects": snapshot.objects,
        "saved": snapshot.saved,
        "steps": snapshot.steps,
    });
    if !snapshot.parts.is_empty() {
        let divided = snapshot
            .divided
            .iter()
            .map(|(name, SavedSharding { shape, boundaries })| {
                (
                    name.clone(),
                    json!({ "shape": shape.to_vec(), "boundaries": boundaries }),
                )
            });
        own["divided"] = Json::Object(divided.collect());
        let parts = snapshot.parts.iter().map(
            |PartFile { name, checksum }| json!({ "file": name, "checksum": digits(*checksum) }),
        );
        own["parts"] = parts.collect();
    }
    let metadata = [("umbo".to_owned(), own.to_string())].into_iter().collect();
    let unfit = |error: &dyn std::fmt::Display| Error::Internal(format!("a header: {error}"));
    let metadata = Metadata::new(Some(metadata), infos).map_err(|error| unfit(&error))?;
    let mut header = serde_json::to_vec(&metadata).map_err(|error| unfit(&error))?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if !header.starts_with(START.as_bytes()) {
        return Err(Error::Internal("a header begins otherwise".into()));
    }
    if header.len() as u64 > LONGEST {
        let problem = format!(
            "its header would have {} bytes; at most {LONGEST}",
            header.len()
        );
        return Err(Error::ResourceExhausted(problem));
    }
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.append(&mut header);
    let checksum = checksum(&all);
    let place = LENGTH_BYTES + START.len();
    all[place..place + 8].copy_from_slice(digits(checksum).as_bytes());
    Ok((all, checksum))
}

/// Parses a header, and returns the dtypes that the format does not know, by the names of their
/// tensors. In the metadata such a tensor consists of bytes, so that the others can be read.
pub(super) fn parse(text: &str) -> Result<(Metadata, HashMap<String, String>), serde_json::Error> {
    let error = match serde_json::from_str(text) {
        Ok(metadata) => return Ok((metadata, HashMap::new())),
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
        if serde_json::from_value::<Dtype>(entry["dtype"].clone()).is_err()
            && let (Some(start), Some(end)) = (offset(0), offset(1))
        {
            entry["shape"] = json!([end.saturating_sub(start)]);
            entry["dtype"] = json!("U8");
            foreign.insert(name.clone(), dtype);
        }
    }
    match serde_json::from_value(Json::Object(entries)) {
        Ok(metadata) if !foreign.is_empty() => Ok((metadata, foreign)),
        _ => Err(error),
    }
}

/// The CRC-32 of a length and a header that begins with [`START`]. The eight digits of the checksum
/// are taken as zeros.
pub(super) fn checksum(all: &[u8]) -> u32 {
    let (before, behind) = all.split_at(LENGTH_BYTES + START.len());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(before);
    hasher.update(b"00000000");
    hasher.update(behind.get(8..).unwrap_or_default());
    hasher.finalize()
}

/// A checksum as it is written in a file.
pub(super) fn digits(checksum: u32) -> String {
    format!("{checksum:08x}")
}

fn read_digits(json: &Json) -> Option<u32> {
    let text = json.as_str()?;
    // The digits must be as they are written, not in capitals, because each byte of a file counts.
    u32::from_str_radix(text, 16)
        .ok()
        .filter(|&checksum| digits(checksum) == text)
}

/// Umbo's entry in a header.
#[derive(Default)]
pub(super) struct OwnHeader {
    pub(super) format: u64,
    pub(super) checksum: u32,
    pub(super) checksums: BTreeMap<String, u32>,
    pub(super) steps: u64,
    pub(super) objects: BTreeMap<String, Map<String, Json>>,
    pub(super) saved: Map<String, Json>,
    /// The parts of the other ranks, and the tensors that are divided among them.
    pub(super) parts: Vec<PartFile>,
    pub(super) divided: BTreeMap<String, SavedSharding>,
}

impl OwnHeader {
    /// Whether Umbo may have written this entry, even if it is damaged now. Another program may use
    /// the same name.
    pub(super) fn is_meant(text: &str) -> bool {
        let names = [
            "\"checksums\"",
            "\"format\"",
            "\"library\"",
            "\"objects\"",
            "\"steps\"",
        ];
        names.into_iter().filter(|name| text.contains(name)).count() >= 2
    }

    /// Parses the entry of the metadata. The error names what is invalid.
    pub(super) fn parse(text: &str) -> Result<OwnHeader, String> {
        let json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let format = json["format"].as_u64().ok_or("no format")?;
        if format != FORMAT {
            return Ok(OwnHeader {
                format,
                ..OwnHeader::default()
            });
        }
        let checksum = read_digits(&json["checksums"]["header"]).ok_or("no checksum")?;
        let members = |json: &Json| json.as_object().cloned();
        let checksums = members(&json["checksums"]["tensors"]).ok_or("no checksums")?;
        let checksums = checksums
            .iter()
            .map(|(name, json)| Some((name.clone(), read_digits(json)?)));
        let objects = members(&json["objects"]).ok_or("no objects")?;
        let objects = objects
            .into_iter()
            .map(|(name, json)| Some((name, members(&json)?)));
        let parts = json["parts"].as_array().into_iter().flatten().map(|part| {
            let name = part["file"]
                .as_str()
                .filter(|name| !name.contains('/'))?
                .to_owned();
            Some(PartFile {
                name,
                checksum: read_digits(&part["checksum"])?,
            })
        });
        let divided = members(&json["divided"]).unwrap_or_default();
        let divided = divided
            .into_iter()
            .map(|(name, json)| Some((name, read_sharding(&json)?)))
            .collect::<Option<_>>();
        Ok(OwnHeader {
            format,
            checksum,
            parts: parts.collect::<Option<_>>().ok_or("a part is none")?,
            divided: divided.ok_or("a division is none")?,
            checksums: checksums
                .collect::<Option<_>>()
                .ok_or("a checksum is none")?,
            steps: read_count(&json["steps"]).ok_or("no steps")?,
            objects: objects.collect::<Option<_>>().ok_or("an object is none")?,
            saved: members(&json["saved"]).unwrap_or_default(),
        })
    }
}

/// How ranks divide a tensor: into parts that follow each other and together are the whole tensor.
fn read_sharding(json: &Json) -> Option<SavedSharding> {
    let numbers = |json: &Json| {
        let numbers = json.as_array()?.iter();
        numbers
            .map(|number| usize::try_from(number.as_u64()?).ok())
            .collect::<Option<Vec<_>>>()
    };
    let shape = Shape::new(&numbers(&json["shape"])?).ok()?;
    let boundaries = numbers(&json["boundaries"])?;
    let is_all = boundaries.first() == Some(&0)
        && boundaries.last() == Some(&shape.elements())
        && boundaries.is_sorted();
    is_all.then_some(SavedSharding { shape, boundaries })
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
