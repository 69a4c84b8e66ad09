//! Files of tensors in the safetensors format, with or without Umbo's entry in their metadata.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::tensor::Dtype;
use serde_json::Value as Json;

use crate::header::{
    self, ForeignTensor, LENGTH_BYTES, LONGEST, OwnMetadata, ParsedHeader, Tensors,
};
use crate::index_file::{self, IndexedFiles};
use crate::metadata::{CheckpointMetadata, ManagerNotes, SavedObject, SavedSharding};
use crate::parts::PartFile;
use crate::source::Source;
use crate::wanted::lost;
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result, Status, memory};
use umbo_base::files::Place;
use umbo_input::sources::file::{self, damaged};
use umbo_tensor::{DType, Shape};

/// The argument that has the bytes of a file in memory. It stands for a path in messages.
const IN_MEMORY: &str = "data";

/// An open file whose header was checked, or the bytes of one in memory.
pub struct CheckpointFile<'m> {
    /// Its path; the argument's name if it is in memory.
    pub(super) path: PathBuf,
    pub(super) source: Source<'m>,
    /// The offset of the elements in the file.
    data: u64,
    pub(super) tensors: Tensors,
    /// The tensors of dtypes that the format does not know. They are listed in `tensors` as bytes.
    pub(super) foreign: HashMap<String, ForeignTensor>,
    /// The metadata of Umbo, if Umbo has written the file.
    metadata: Option<OwnMetadata>,
    /// The parts of the ranks after the first, if several ranks have saved it.
    parts: Vec<CheckpointFile<'m>>,
    /// The files that it names, if it is an [index](crate::index_file), and the position of the
    /// file of each tensor.
    indexed: Vec<CheckpointFile<'m>>,
    file_of: HashMap<String, usize>,
}

impl CheckpointFile<'_> {
    /// Opens a file and reads its header. A file whose name ends with `.json` is an index of
    /// several files, which stands for all of them.
    ///
    /// NOT_FOUND, PERMISSION_DENIED: as the system reports. DATA_LOSS: the file is damaged, shorter
    /// or longer than its header says, or of another format. UNIMPLEMENTED: a later version of
    /// the format.
    pub fn open(path: &Path) -> Result<CheckpointFile<'static>> {
        match index_file::is_index(path) {
            true => CheckpointFile::open_index(path),
            false => CheckpointFile::open_safetensors(path),
        }
    }

    /// Opens all files of an index.
    fn open_index(path: &Path) -> Result<CheckpointFile<'static>> {
        let IndexedFiles {
            source,
            files,
            file_of,
        } = index_file::open(path)?;
        let of_all = |file: &CheckpointFile<'_>| file.foreign.clone();
        Ok(CheckpointFile {
            path: path.to_owned(),
            source,
            data: 0,
            tensors: Tensors::new(),
            foreign: files.iter().flat_map(of_all).collect(),
            metadata: None,
            parts: Vec::new(),
            indexed: files,
            file_of,
        })
    }

    /// The same for a file that is not an index.
    pub(super) fn open_safetensors(path: &Path) -> Result<CheckpointFile<'static>> {
        let mut file = CheckpointFile::open_one(path)?;
        let parts = file
            .metadata
            .as_ref()
            .map(|metadata| metadata.checkpoint.parts.clone())
            .unwrap_or_default();
        // Parts are beside the file itself, even if the path is a symbolic link.
        let place = match parts.is_empty() {
            true => path.to_owned(),
            false => Place::of(path)?.path,
        };
        for PartFile { file: name, crc32 } in parts {
            let name = name.as_str();
            let part =
                CheckpointFile::open_one(&place.with_file_name(name)).map_err(
                    |error| match error.status() {
                        Status::NotFound => damaged(path, format!("its part '{name}' is missing")),
                        _ => error,
                    },
                )?;
            if part.metadata.as_ref().map(|metadata| metadata.crc32) != Some(crc32) {
                return Err(damaged(
                    path,
                    format!("its part '{name}' is that of another save"),
                ));
            }
            file.parts.push(part);
        }
        file.check_shardings()?;
        Ok(file)
    }

    /// A manager's notes in the file at `path`, whether its parts are there or not.
    pub(super) fn notes_at(path: &Path) -> Result<Option<ManagerNotes>> {
        let metadata = CheckpointFile::open_one(path)?.metadata;
        Ok(metadata.and_then(|metadata| metadata.checkpoint.manager))
    }

    /// Checks that all parts have the tensors that the file says they have.
    fn check_shardings(&self) -> Result<()> {
        let sharded = self
            .metadata
            .iter()
            .flat_map(|metadata| &metadata.checkpoint.sharded);
        for (name, SavedSharding { boundaries, .. }) in sharded {
            let dtype = self.tensors.get(name).map(|info| info.dtype);
            let fits = |(part, pair): (&CheckpointFile, &[usize])| {
                part.tensors.get(name).is_some_and(|info| {
                    info.shape == [pair[1] - pair[0]] && Some(info.dtype) == dtype
                })
            };
            if boundaries.len() != self.parts.len() + 2
                || !self.files().zip(boundaries.windows(2)).all(fits)
            {
                let problem = format!("damaged: its parts are not those of tensor '{name}'");
                return Err(damaged(&self.path, problem));
            }
        }
        Ok(())
    }

    /// This file and its parts.
    pub(super) fn files(&self) -> impl Iterator<Item = &CheckpointFile<'_>> {
        std::iter::once(self).chain(&self.parts)
    }

    /// Opens the file at `path` alone, without its parts.
    pub(super) fn open_one(path: &Path) -> Result<CheckpointFile<'static>> {
        CheckpointFile::of(path, Source::File(file::open(path)?))
    }

    /// Reads the header of a file whose bytes are in memory. Its checksums are compared as those of
    /// other files.
    ///
    /// INVALID_ARGUMENT: one file of several, of several ranks. Otherwise as
    /// [`CheckpointFile::open`].
    pub fn in_memory(bytes: &[u8]) -> Result<CheckpointFile<'_>> {
        let path = Path::new(IN_MEMORY);
        if bytes.is_empty() {
            return Err(damaged(path, "there are no bytes"));
        }
        let file = CheckpointFile::of(path, Source::Memory(bytes))?;
        if file
            .metadata
            .as_ref()
            .is_some_and(|metadata| !metadata.checkpoint.parts.is_empty())
        {
            let problem = "one file of a checkpoint of several ranks, which is in several files; \
                           restore it from these";
            return Err(Error::invalid(IN_MEMORY, problem));
        }
        file.check_shardings()?;
        Ok(file)
    }

    fn of<'s>(path: &Path, source: Source<'s>) -> Result<CheckpointFile<'s>> {
        built_with!("checkpoints", "checkpoints");
        let length = source
            .length()
            .map_err(|error| file::failed(path, &error))?;
        let mut start = [0; LENGTH_BYTES];
        read_at(path, &source, &mut start, 0)?;
        let header = u64::from_le_bytes(start);
        let is_cut_off = header > length.saturating_sub(LENGTH_BYTES as u64);
        if header > LONGEST || is_cut_off {
            let limit = match is_cut_off {
                true => format!("it has {length} in all"),
                false => format!("the format allows {LONGEST}"),
            };
            let problem = format!(
                "not a safetensors file, or damaged: it says that its header has {header} bytes, \
                 and {limit}"
            );
            return Err(damaged(path, problem));
        }
        let mut all = memory::filled(LENGTH_BYTES + header as usize, 0, "bytes of a header")?;
        read_at(path, &source, &mut all, 0)?;
        let text = std::str::from_utf8(&all[LENGTH_BYTES..])
            .map_err(|_| damaged(path, "not a safetensors file, or damaged: no header"))?;
        let header = header::parse(text).map_err(|error| {
            damaged(
                path,
                format!("not a safetensors file, or damaged: its header: {error}"),
            )
        })?;
        let data = all.len() as u64;
        let elements = header.elements;
        let expected = (elements as u64).checked_add(data);
        if expected != Some(length) {
            let problem = format!(
                "damaged: its header says {elements} bytes of elements, but {} are there",
                length - data
            );
            return Err(damaged(path, problem));
        }
        let own_metadata = OwnMetadata::read(path, &header)?;
        let ParsedHeader {
            tensors, foreign, ..
        } = header;
        let path = path.to_owned();
        Ok(CheckpointFile {
            path,
            source,
            data,
            tensors,
            foreign,
            metadata: own_metadata,
            parts: Vec::new(),
            indexed: Vec::new(),
            file_of: HashMap::new(),
        })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The argument that is wrong if the file does not fit.
    pub(super) fn argument(&self) -> &'static str {
        match self.source {
            Source::File(_) => "path",
            Source::Memory(_) => IN_MEMORY,
        }
    }

    /// Umbo's entry. Fails if the file was not written by Umbo with everything that training needs.
    pub(super) fn own(&self) -> Result<&CheckpointMetadata> {
        let metadata = self.metadata.as_ref().map(|metadata| &metadata.checkpoint);
        metadata.ok_or_else(|| {
            let path = self.path.display();
            let problem = format!(
                "'{path}' is a safetensors file without the metadata of a checkpoint; its \
                 tensors can be loaded as weights"
            );
            Error::invalid(self.argument(), problem)
        })
    }

    /// The checksum that stands for all its contents.
    pub(super) fn checksum(&self) -> Option<Crc32> {
        self.metadata.as_ref().map(|metadata| metadata.crc32)
    }

    /// A manager's notes in the file.
    pub(super) fn notes(&self) -> Option<&ManagerNotes> {
        self.metadata.as_ref()?.checkpoint.manager.as_ref()
    }

    /// The tensors of this file itself, if it is not an index, by name and in the order of the
    /// names.
    pub(super) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<&str> {
        let names = self.tensors.keys().chain(self.file_of.keys());
        let mut names: Vec<_> = names.map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The names of tensors in a message: all of them, or the first ones.
    pub(super) fn listed_names(&self) -> String {
        const SHOWN: usize = 20;
        let names = self.names();
        let mut list = names[..names.len().min(SHOWN)].join(", ");
        if names.len() > SHOWN {
            list += &format!(" and {} more", names.len() - SHOWN);
        }
        list
    }

    /// The dtype and shape of a tensor.
    pub fn info(&self, name: &str) -> Option<(Dtype, &[usize])> {
        if let Some(file) = self.indexed_file(name) {
            return file.info(name);
        }
        self.info_at(self.tensors.get_index_of(name)?)
    }

    /// The same of the tensor at a position among those of this file itself.
    pub(super) fn info_at(&self, position: usize) -> Option<(Dtype, &[usize])> {
        let (name, info) = self.tensors.get_index(position)?;
        let shape = self
            .sharding(name)
            .map_or(&info.shape[..], |sharding| &sharding.shape[..]);
        Some((info.dtype, shape))
    }

    /// The file with a tensor, if this is an index.
    pub(super) fn indexed_file(&self, name: &str) -> Option<&CheckpointFile<'_>> {
        self.indexed.get(*self.file_of.get(name)?)
    }

    pub(super) fn sharding(&self, name: &str) -> Option<&SavedSharding> {
        self.metadata.as_ref()?.checkpoint.sharded.get(name)
    }

    /// Umbo's entry for an object of the file; of a variable also the position of its tensor.
    pub(super) fn object(&self, name: &str) -> Option<(&SavedObject, Option<usize>)> {
        let metadata = self.metadata.as_ref()?;
        if let Some(saved) = metadata.checkpoint.objects.get(name) {
            return Some((saved, None));
        }
        let position = self.tensors.get_index_of(name)?;
        Some((metadata.variable(position)?, Some(position)))
    }

    /// The objects of the file that are not variables, each with its name.
    pub(super) fn other_objects(&self) -> impl Iterator<Item = (&str, &SavedObject)> {
        let objects = self
            .metadata
            .iter()
            .flat_map(|metadata| &metadata.checkpoint.objects);
        objects.map(|(name, saved)| (&name[..], saved))
    }

    /// The variables of the file, each with its name.
    pub(super) fn variables(&self) -> impl Iterator<Item = (&str, &SavedObject)> {
        self.metadata.iter().flat_map(|metadata| {
            let tensors = self.tensors.keys().enumerate();
            tensors.filter_map(|(position, name)| Some((&name[..], metadata.variable(position)?)))
        })
    }

    /// The number of variables of the file.
    pub(super) fn variable_count(&self) -> usize {
        let runs = self
            .metadata
            .iter()
            .flat_map(|metadata| &metadata.checkpoint.variables);
        runs.map(|[first, end]| end - first).sum()
    }

    /// A property that each rank has saved for itself, of all of them in their order. If only the
    /// first one has it, the ranks have it in common.
    pub(super) fn properties_of_ranks(&self, object: &str, name: &str) -> Vec<&Json> {
        self.files()
            .filter_map(|file| {
                let objects = &file.metadata.as_ref()?.checkpoint.objects;
                objects.get(object)?.properties.get(name)
            })
            .collect()
    }

    /// The name of the tensor at a position in this file itself, and the offset of its elements.
    pub(super) fn place_of(&self, position: usize) -> Result<(&str, u64)> {
        let (name, info) = self.tensors.get_index(position).ok_or_else(lost)?;
        Ok((name, self.data + info.data_offsets.0 as u64))
    }

    /// The expected checksum of the tensor at a position in this file itself, if the file has one.
    pub(super) fn checksum_of(&self, position: usize) -> Option<Crc32> {
        self.metadata.as_ref()?.checksum_of(position)
    }

    /// Reads all tensors and compares all checksums. If one differs, returns DATA_LOSS, which names
    /// the tensor.
    pub fn verify(&self) -> Result<()> {
        self.own()?;
        for file in self.files() {
            for name in file.names() {
                let Some(info) = file.tensors.get(name) else {
                    continue;
                };
                let Some(dtype) = dtype_of(info.dtype) else {
                    return Err(damaged(
                        &file.path,
                        format!("tensor '{name}' is {}", info.dtype),
                    ));
                };
                file.read(name, dtype, Shape::new(&info.shape)?)?;
            }
        }
        Ok(())
    }
}

fn read_at(path: &Path, source: &Source<'_>, target: &mut [u8], offset: u64) -> Result<()> {
    source
        .read_exact_at(target, offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(path, "damaged: it ends within its header"),
            _ => file::failed(path, &error),
        })
}

pub(super) fn missing(name: &str) -> Error {
    Error::Internal(format!("there is no tensor '{name}' to read"))
}

/// Umbo's dtype for a dtype of files, if there is one.
pub(super) fn dtype_of(dtype: Dtype) -> Option<DType> {
    DType::ALL
        .into_iter()
        .find(|known| header::file_dtype(*known) == dtype)
}
