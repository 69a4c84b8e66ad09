//! The header of a file: what safetensors prescribes, and entries of Umbo's in its metadata.
//!
//! Safetensors has texts alone in the metadata. One entry is a text of JSON, a
//! [`CheckpointMetadata`]; the other is the checksum of this text. So a file tells damage from
//! another version, whatever a later version of the format writes. The rest of the header needs no
//! checksum of its own: the text has one of the tensors' names, dtypes and shapes, and one of each
//! tensor's elements.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display};
use std::path::Path;

use crc32fast::Hasher;
use indexmap::IndexMap;
use safetensors::tensor::{Dtype, TensorInfo};
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::header_scan;
use crate::metadata::{AnyMetadata, CheckpointMetadata, Checksums, FORMAT, SavedObject};
use crate::numbers::Count;
use crate::objects::variable::KIND as VARIABLE;
use crate::snapshot::{SavedTensor, Snapshot};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_input::sources::file::damaged;
use umbo_tensor::DType;

/// The name of the header's entry that has texts, and is not a tensor.
pub(super) const METADATA: &str = "__metadata__";

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

/// The header's entry of a tensor, as safetensors prescribes it. Readers use the crate's own type.
#[derive(Serialize)]
struct Entry<'a> {
    dtype: Dtype,
    shape: &'a [usize],
    data_offsets: (usize, usize),
}

/// The bytes of a file before the elements: the length and the header.
pub(super) struct EncodedHeader {
    pub bytes: Vec<u8>,
    /// The checksum of Umbo's entry. It stands for all contents of the file.
    pub crc32: Crc32,
}

/// The header of a file that has the tensors of a snapshot, in their order, with these checksums.
pub(super) fn encode(snapshot: &Snapshot, checksums: &[Crc32]) -> Result<EncodedHeader> {
    let order = snapshot.by_name();
    let text = serde_json::to_string(&metadata_of(snapshot, checksums, &order));
    let text = text.map_err(unwritten)?;
    let crc32 = Crc32::of(text.as_bytes());
    let mut metadata = BTreeMap::from([(CHECKPOINT, text), (CHECKSUM, crc32.to_string())]);
    if snapshot.is_for_others {
        metadata.insert(FRAMEWORK.0, FRAMEWORK.1.to_owned());
    }
    let mut end = 0;
    let mut places = Vec::with_capacity(order.len());
    for SavedTensor { tensor, .. } in &snapshot.tensors {
        let start = end;
        end += tensor.shape().bytes(tensor.dtype())?;
        places.push((start, end));
    }
    let mut bytes = vec![0; LENGTH_BYTES];
    let mut serializer = serde_json::Serializer::new(&mut bytes);
    let mut header = serializer.serialize_map(None).map_err(unwritten)?;
    header
        .serialize_entry(METADATA, &metadata)
        .map_err(unwritten)?;
    for position in order {
        let SavedTensor { name, tensor, .. } = &snapshot.tensors[position];
        let entry = Entry {
            dtype: file_dtype(tensor.dtype()),
            shape: &tensor.shape(),
            data_offsets: places[position],
        };
        header.serialize_entry(name, &entry).map_err(unwritten)?;
    }
    SerializeMap::end(header).map_err(unwritten)?;
    bytes.resize(bytes.len().next_multiple_of(8), b' ');
    let length = (bytes.len() - LENGTH_BYTES) as u64;
    if length > LONGEST {
        let problem = format!("its header would have {length} bytes; at most {LONGEST}");
        return Err(Error::beyond_limit(problem));
    }
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(EncodedHeader { bytes, crc32 })
}

/// Umbo's entry in the header. `order` has the positions of the tensors in that of their names.
fn metadata_of(snapshot: &Snapshot, checksums: &[Crc32], order: &[usize]) -> CheckpointMetadata {
    let mut variables: Vec<[usize; 2]> = Vec::new();
    let mut tensors = TensorsChecksum::default();
    for (at, &position) in order.iter().enumerate() {
        let saved = &snapshot.tensors[position];
        let dtype = file_dtype(saved.tensor.dtype());
        tensors.add(&saved.name, dtype, &saved.tensor.shape());
        match variables.last_mut().filter(|run| run[1] == at) {
            Some(run) if saved.is_variable => run[1] = at + 1,
            _ if saved.is_variable => variables.push([at, at + 1]),
            _ => {}
        }
    }
    let elements = order.iter().map(|&position| checksums[position]);
    let is_whole = snapshot.parts.is_empty();
    CheckpointMetadata {
        format: FORMAT,
        library: env!("CARGO_PKG_VERSION").to_owned(),
        steps: Count(snapshot.steps),
        objects: snapshot.objects.clone(),
        variables,
        tensors: tensors.finish(),
        elements: Checksums(elements.collect()),
        manager: snapshot.manager.clone(),
        parts: snapshot.parts.clone(),
        // A part has its rank's elements alone, of which the file knows the place.
        sharded: if is_whole {
            BTreeMap::new()
        } else {
            snapshot.sharded.clone()
        },
    }
}

/// The checksum of lines with the name, the dtype and the sizes of each tensor.
#[derive(Default)]
struct TensorsChecksum {
    hasher: Hasher,
    /// The sizes and the dtype of the last tensor, which are often those of the next one, and the
    /// end of its line.
    sizes: Vec<usize>,
    dtype: Option<Dtype>,
    end: String,
}

impl TensorsChecksum {
    fn add(&mut self, name: &str, dtype: Dtype, sizes: &[usize]) {
        if self.dtype != Some(dtype) || self.sizes != sizes {
            self.dtype = Some(dtype);
            self.set_end(dtype, sizes);
        }
        self.hasher.update(name.as_bytes());
        self.hasher.update(self.end.as_bytes());
    }

    fn add_foreign(&mut self, name: &str, ForeignTensor { dtype, shape }: &ForeignTensor) {
        self.dtype = None;
        self.set_end(dtype, shape);
        self.hasher.update(name.as_bytes());
        self.hasher.update(self.end.as_bytes());
    }

    fn set_end(&mut self, dtype: impl Display, sizes: &[usize]) {
        self.sizes.clear();
        self.sizes.extend(sizes);
        let sizes: String = sizes.iter().map(|size| format!(" {size}")).collect();
        self.end = format!(" {dtype}{sizes}\n");
    }

    fn finish(self) -> Crc32 {
        Crc32(self.hasher.finalize())
    }
}

fn unwritten(error: serde_json::Error) -> Error {
    Error::Internal(format!("the header of a checkpoint: {error}"))
}

/// The tensors of a header by name, in the order of their names.
pub(super) type Tensors = IndexMap<String, TensorInfo>;

/// A header that was read.
pub(super) struct ParsedHeader {
    pub tensors: Tensors,
    /// The number of bytes of all elements.
    pub elements: usize,
    /// The texts beside the tensors.
    pub metadata: HashMap<String, String>,
    /// The tensors of dtypes that the format does not know, by name. In `tensors` such a tensor
    /// consists of bytes, so that the others can be read.
    pub foreign: HashMap<String, ForeignTensor>,
}

/// A tensor of a dtype that the format does not know.
#[derive(Clone)]
pub(super) struct ForeignTensor {
    pub dtype: String,
    shape: Vec<usize>,
}

/// Parses a header.
pub(super) fn parse(text: &str) -> Result<ParsedHeader, serde_json::Error> {
    if let Some((metadata, tensors)) = header_scan::scan(text)
        && let Ok(header) = ParsedHeader::of(metadata, tensors)
    {
        return Ok(header);
    }
    let error = match serde_json::from_str(text) {
        Ok(header) => return Ok(header),
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
            let shape = Vec::deserialize(&entry["shape"]).unwrap_or_default();
            foreign.insert(name.clone(), ForeignTensor { dtype, shape });
            entry["shape"] = json!([end.saturating_sub(start)]);
            entry["dtype"] = json!("U8");
        }
    }
    match serde_json::from_value::<ParsedHeader>(Json::Object(entries)) {
        Ok(header) if !foreign.is_empty() => Ok(ParsedHeader { foreign, ..header }),
        _ => Err(error),
    }
}

impl<'de> Deserialize<'de> for ParsedHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ParsedHeader, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// Takes the entries of a header as they come: of the crate's own type, all of them would first be
/// taken for anything, and then for tensors.
struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = ParsedHeader;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the tensors of a file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ParsedHeader, A::Error> {
        let mut metadata: Option<Option<HashMap<String, String>>> = None;
        let mut tensors = Tensors::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name != METADATA {
                // Of two tensors with one name the last one counts, as for the crate.
                tensors.insert(name, entries.next_value()?);
            } else if metadata.is_some() {
                return Err(A::Error::duplicate_field(METADATA));
            } else {
                metadata = Some(entries.next_value()?);
            }
        }
        let metadata = metadata.flatten().unwrap_or_default();
        ParsedHeader::of(metadata, tensors).map_err(A::Error::custom)
    }
}

impl ParsedHeader {
    /// A header with these texts and tensors. Fails with a message if the tensors do not lie as the
    /// format says.
    fn of(metadata: HashMap<String, String>, mut tensors: Tensors) -> Result<ParsedHeader, String> {
        if !tensors.keys().is_sorted() {
            tensors.sort_unstable_keys();
        }
        Ok(ParsedHeader {
            elements: bytes_of_elements(&tensors)?,
            tensors,
            metadata,
            foreign: HashMap::new(),
        })
    }
}

/// The number of bytes that the tensors have, which must lie one behind the other without gaps, and
/// each have the bytes of its dtype and shape.
fn bytes_of_elements(tensors: &Tensors) -> Result<usize, String> {
    let mut in_file: Vec<(&String, &TensorInfo)> = tensors.iter().collect();
    in_file.sort_by_key(|(_, info)| info.data_offsets);
    let mut behind = 0;
    for (name, info) in in_file {
        let (start, end) = info.data_offsets;
        if start != behind || end < start {
            return Err(format!(
                "tensor '{name}' has bytes {start} to {end}, and should begin at {behind}"
            ));
        }
        let sizes = info.shape.iter().copied();
        let bits = sizes
            .chain([info.dtype.bitsize()])
            .try_fold(1, usize::checked_mul);
        if bits.is_none_or(|bits| bits % 8 != 0 || bits / 8 != end - start) {
            return Err(format!(
                "tensor '{name}' of dtype {} and shape {:?} has {} bytes",
                info.dtype,
                info.shape,
                end - start
            ));
        }
        behind = end;
    }
    Ok(behind)
}

/// Umbo's entries in the header of a file.
pub(super) struct OwnMetadata {
    pub checkpoint: CheckpointMetadata,
    /// The checksum of the text that it was read from.
    pub crc32: Crc32,
    /// The entry that a variable would have among the objects: without values beside its tensor.
    variable: SavedObject,
}

impl OwnMetadata {
    /// Umbo's entries in the header of the file at `path`. None if the file has none.
    ///
    /// DATA_LOSS if they are damaged, or do not fit the header. UNIMPLEMENTED: a later version of
    /// the format.
    pub(super) fn read(path: &Path, header: &ParsedHeader) -> Result<Option<OwnMetadata>> {
        let entry = |name: &str| header.metadata.get(name);
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
        let variable = SavedObject {
            kind: VARIABLE.to_owned(),
            properties: Map::new(),
        };
        Ok(Some(OwnMetadata {
            checkpoint,
            crc32,
            variable,
        }))
    }

    /// The checksum of the tensor at a position in the file itself.
    pub(super) fn checksum_of(&self, position: usize) -> Option<Crc32> {
        self.checkpoint.elements.0.get(position).copied()
    }

    /// The variable whose tensor is at a position in the file itself, if it is that of one.
    pub(super) fn variable(&self, position: usize) -> Option<&SavedObject> {
        is_in(&self.checkpoint.variables, position).then_some(&self.variable)
    }
}

/// Whether a position is in one of the runs.
fn is_in(runs: &[[usize; 2]], position: usize) -> bool {
    let behind = runs.partition_point(|[first, _]| *first <= position);
    runs[..behind]
        .last()
        .is_some_and(|[_, end]| position < *end)
}

impl ParsedHeader {
    /// Checks that the header has the tensors that Umbo's metadata are of, and no others.
    fn check(&self, path: &Path, checkpoint: &CheckpointMetadata) -> Result<()> {
        let mut checksum = TensorsChecksum::default();
        for (name, info) in &self.tensors {
            match self.foreign.get(name) {
                Some(foreign) => checksum.add_foreign(name, foreign),
                None => checksum.add(name, info.dtype, &info.shape),
            }
        }
        let described = checkpoint.elements.0.len();
        if self.tensors.len() != described || checksum.finish() != checkpoint.tensors {
            return Err(damaged(
                path,
                format!(
                    "damaged, or rewritten: Umbo's metadata are of {described} tensors, and its \
                     header has {}, or others; a program that changes the tensors of a checkpoint \
                     leaves out the metadata '{CHECKPOINT}' and '{CHECKSUM}', and variables can \
                     be loaded from what it writes",
                    self.tensors.len()
                ),
            ));
        }
        let mut behind = 0;
        let are_runs = checkpoint.variables.iter().all(|&[first, end]| {
            let follows = behind <= first && first < end;
            behind = end;
            follows
        });
        if !are_runs || behind > described {
            let problem = format!(
                "damaged: its metadata: variables at {:?} of {described} tensors",
                checkpoint.variables
            );
            return Err(damaged(path, problem));
        }
        let is_variable = |name: &&String| {
            let position = self.tensors.get_index_of(*name);
            position.is_some_and(|position| is_in(&checkpoint.variables, position))
        };
        match checkpoint.objects.keys().find(is_variable) {
            None => Ok(()),
            Some(name) => Err(damaged(
                path,
                format!("damaged: its metadata: '{name}' is a variable and another object"),
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
