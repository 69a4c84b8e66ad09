//! Variables alone, written to safetensors files for other programs.
//!
//! A model in several files is an index and its shards, in the index's folder. The shards of each
//! save have names of their own, as the parts of a checkpoint have, and are on the disk before the
//! index takes its name: whatever fails, the index leads to the shards of the old save or to those
//! of the new one.

use std::collections::BTreeMap;
use std::io::Write;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::path::Path;

use serde::Serialize;

use crate::atomic::AtomicFile;
use crate::bundle::Checkpoint;
use crate::conversion::{converted, first_overflow};
use crate::header::{self, EncodedHeader};
use crate::index_file::{MOST_FILES, is_index};
use crate::parts::{part_name, parts_of, remove_parts};
use crate::snapshot::Snapshot;
use crate::writer::replace;
use umbo_base::error::{Error, Result};
use umbo_base::files::Place;
use umbo_strategy::ranks::agreement;
use umbo_tensor::{DType, Tensor};

/// How weights are written for other programs. By default as they are, in one file.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveWeightsOptions {
    /// The type in which floating-point variables are written, each number rounded to the nearest,
    /// ties to even.
    pub float_dtype: Option<DType>,
    /// The most bytes of elements in a file, unless a single tensor has more.
    pub max_file_bytes: Option<NonZeroU64>,
}

impl Checkpoint {
    /// Replaces the file at `path` by one with the variables alone, for other programs and for
    /// [`Checkpoint::load_weights`]. It waits for the step in progress.
    pub fn save_weights(&self, path: &Path) -> Result<()> {
        self.save_weights_as(path, SaveWeightsOptions::default())
    }

    /// The same, as the options say. A path that ends with ".json" is that of an index: the
    /// variables are in files beside it.
    ///
    /// INVALID_ARGUMENT: a type that is not a floating-point one, or in which a finite number would
    /// be infinite; a limit of bytes without an index, or one that makes too many files.
    pub fn save_weights_as(&self, path: &Path, options: SaveWeightsOptions) -> Result<()> {
        check_float(options.float_dtype)?;
        let convert = |name: &str, value| in_type(name, value, options.float_dtype);
        if is_index(path) {
            let largest = options.max_file_bytes.map_or(u64::MAX, NonZeroU64::get);
            return self.with_weights(convert, |snapshot| save_shards(snapshot, path, largest));
        }
        if options.max_file_bytes.is_some() {
            return Err(invalid!(
                "max_file_bytes",
                "is given, and '{}' is one file; several have an index, whose path ends with \
                 \".json\", such as \"model.safetensors.index.json\"",
                path.display()
            ));
        }
        replace(self.with_weights(convert, |snapshot| snapshot.begin(path))?)
    }

    /// Writes the bytes to `memory` that [`Checkpoint::save_weights_as`] would write to one file,
    /// and returns their number, as [`Checkpoint::save_to_memory`].
    pub fn save_weights_to_memory(
        &self,
        memory: &mut [MaybeUninit<u8>],
        options: SaveWeightsOptions,
    ) -> Result<usize> {
        check_float(options.float_dtype)?;
        if options.max_file_bytes.is_some() {
            return Err(invalid!(
                "max_file_bytes",
                "is given, and memory takes one file; leave it 0"
            ));
        }
        let convert = |name: &str, value| in_type(name, value, options.float_dtype);
        self.with_weights(convert, |snapshot| snapshot.write_to_memory(memory))
    }
}

fn check_float(dtype: Option<DType>) -> Result<()> {
    match dtype.filter(|dtype| !dtype.is_float()) {
        Some(dtype) => Err(invalid!(
            "float_dtype",
            "{dtype}; must be float16, bfloat16, float32 or float64"
        )),
        None => Ok(()),
    }
}

/// The value of a variable in the type `dtype`, if it has a floating-point type.
fn in_type(name: &str, value: Tensor, dtype: Option<DType>) -> Result<Tensor> {
    let Some(dtype) = dtype.filter(|&dtype| value.dtype().is_float() && value.dtype() != dtype)
    else {
        return Ok(value);
    };
    let rounded = converted(&value, dtype)?;
    match first_overflow(&value, &rounded)? {
        None => Ok(rounded),
        Some((element, number)) => Err(invalid!(
            "float_dtype",
            "{dtype}, in which element {element} of variable '{name}', {number:e}, would be \
             infinite; use bfloat16 or a wider type"
        )),
    }
}

/// A shard whose name is not known yet.
struct Shard {
    contents: Snapshot,
    header: EncodedHeader,
}

/// Writes the shards and their index, and removes the shards of the index that was there.
fn save_shards(snapshot: Snapshot, path: &Path, largest: u64) -> Result<()> {
    // Shards are beside the index itself, even if the path is a symbolic link.
    let index = Place::of(path)?.path;
    let named_after = index.with_extension("safetensors");
    let total: u64 = snapshot
        .tensors
        .iter()
        .map(|saved| saved.tensor.bytes() as u64)
        .sum();
    let shards = divided(snapshot, largest)?;
    let checksums: Vec<u32> = shards.iter().map(|shard| shard.header.crc32.0).collect();
    let save = agreement(&checksums);
    let was_there = parts_of(&named_after).any(|(number, _)| number == save);
    let written = write_shards(&shards, &named_after, save)
        .and_then(|weight_map| write_index(path, &index_text(total, &weight_map)?));
    match &written {
        Ok(()) => drop(remove_parts(&named_after, |number| number != save)),
        // An index that is there may name shards with the same contents.
        Err(_) if was_there => {}
        Err(_) => drop(remove_parts(&named_after, |number| number == save)),
    }
    written
}

/// Tensors in their order, in as few shards as hold them.
fn divided(snapshot: Snapshot, largest: u64) -> Result<Vec<Shard>> {
    let empty = |steps| Snapshot {
        steps,
        is_for_others: true,
        ..Snapshot::default()
    };
    let Snapshot { tensors, steps, .. } = snapshot;
    let mut all = vec![empty(steps)];
    let mut in_last = 0;
    for saved in tensors {
        let size = saved.tensor.bytes() as u64;
        if in_last > 0 && size > largest.saturating_sub(in_last) {
            all.push(empty(steps));
            in_last = 0;
        }
        in_last += size;
        if let Some(last) = all.last_mut() {
            last.tensors.push(saved);
        }
    }
    if all.len() > MOST_FILES {
        return Err(invalid!(
            "max_file_bytes",
            "{largest}; there would be {} files, of at most {MOST_FILES}",
            all.len()
        ));
    }
    let encoded = all.into_iter().map(|contents| {
        let header = header::encode(&contents, &contents.checksums()?)?;
        Ok(Shard { contents, header })
    });
    encoded.collect()
}

/// Writes all shards, and returns the file of each tensor.
fn write_shards<'s>(
    shards: &'s [Shard],
    named_after: &Path,
    save: u64,
) -> Result<BTreeMap<&'s str, String>> {
    let mut weight_map = BTreeMap::new();
    for (position, Shard { contents, header }) in shards.iter().enumerate() {
        let name: String = part_name(named_after, save, position, shards.len())?.into();
        let mut file = AtomicFile::create(&named_after.with_file_name(&name))?;
        contents.write_to(&mut file, header)?;
        file.finish()?;
        let tensors = contents.tensors.iter();
        weight_map.extend(tensors.map(|saved| (&saved.name[..], name.clone())));
    }
    Ok(weight_map)
}

/// The text of an index, in the form of the programs that read it.
fn index_text(total_size: u64, weight_map: &BTreeMap<&str, String>) -> Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Index<'a> {
        metadata: Sizes,
        weight_map: &'a BTreeMap<&'a str, String>,
    }
    #[derive(Serialize)]
    struct Sizes {
        total_size: u64,
    }
    let index = Index {
        metadata: Sizes { total_size },
        weight_map,
    };
    let unwritten = |error: String| Error::Internal(format!("the index of weights: {error}"));
    let mut text =
        serde_json::to_vec_pretty(&index).map_err(|error| unwritten(error.to_string()))?;
    writeln!(text).map_err(|error| unwritten(error.to_string()))?;
    Ok(text)
}

fn write_index(path: &Path, text: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write(text)?;
    file.finish()
}
