//! Weights in several safetensors files with an index, such as `model.safetensors.index.json`. The
//! index says which tensor is in which file, and the files are in its folder.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::{Component, Path};

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::header::LONGEST;
use crate::reader::CheckpointFile;
use crate::source::Source;
use umbo_base::error::{Result, Status, memory};
use umbo_base::files::Place;
use umbo_input::sources::file::{self, damaged};

/// The largest number of files that an index may name. Each of them is open during a load.
pub(super) const MOST_FILES: usize = 1000;

/// Whether the file at `path` is taken for an index.
pub(super) fn is_index(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

/// The part of an index that is read. The sizes in its metadata are wrong in files of some
/// programs, and nothing depends on them.
#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// The file of each tensor.
struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(EachNameOnce)
    }
}

struct EachNameOnce;

impl<'de> Visitor<'de> for EachNameOnce {
    type Value = WeightMap;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with the file of each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<WeightMap, A::Error> {
        let mut files = BTreeMap::new();
        while let Some((tensor, file)) = map.next_entry::<String, String>()? {
            if let Some(other) = files.get(&tensor) {
                return Err(A::Error::custom(format_args!(
                    "tensor '{tensor}' is in '{other}' and in '{file}'"
                )));
            }
            files.insert(tensor, file);
        }
        Ok(WeightMap(files))
    }
}

/// The file of each tensor, by the text of an index.
fn parsed(text: &[u8]) -> std::result::Result<BTreeMap<String, String>, serde_json::Error> {
    let Index { weight_map } = serde_json::from_slice(text)?;
    let files: BTreeSet<&String> = weight_map.0.values().collect();
    if files.len() > MOST_FILES {
        let problem = format_args!("it names {} files, of at most {MOST_FILES}", files.len());
        return Err(de::Error::custom(problem));
    }
    if let Some(wrong) = files.iter().find(|name| !is_file_name(name)) {
        let problem = format_args!(
            "'{wrong}' is not the name of a safetensors file in the folder of the index"
        );
        return Err(de::Error::custom(problem));
    }
    Ok(weight_map.0)
}

/// Whether a file of this name lies in the folder of the index, whatever the system takes for
/// separators.
fn is_file_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_one = matches!(components.next(), Some(Component::Normal(one)) if one == name);
    is_one
        && components.next().is_none()
        && !name.contains(['/', '\\', ':', '\0'])
        && !is_index(Path::new(name))
}

/// The files that an index names, and the positions of those that have its tensors.
pub(super) struct IndexedFiles {
    /// The index itself.
    pub(super) source: Source<'static>,
    pub(super) files: Vec<CheckpointFile<'static>>,
    /// The position of the file of each tensor in `files`, by the tensor's name. Tensors that the
    /// index leaves out are there, too.
    pub(super) file_of: HashMap<String, usize>,
}

/// Opens an index and all files that it names.
///
/// DATA_LOSS: a file that is not an index, an index of files that are not there or do not have its
/// tensors, or a tensor that is in two files.
pub(super) fn open(path: &Path) -> Result<IndexedFiles> {
    let source = Source::File(file::open(path)?);
    let length = source
        .length()
        .map_err(|error| file::failed(path, &error))?;
    if length > LONGEST {
        let problem = format!("an index of {length} bytes, which may have {LONGEST}");
        return Err(damaged(path, problem));
    }
    let mut text = memory::filled(length as usize, 0, "bytes of an index")?;
    source
        .read_exact_at(&mut text, 0)
        .map_err(|error| file::failed(path, &error))?;
    let listed = parsed(&text).map_err(|error| {
        let problem = format!("not an index of safetensors files, or damaged: {error}");
        damaged(path, problem)
    })?;
    // The files are beside the index itself, even if the path is a symbolic link.
    let place = Place::of(path)?.path;
    let names: BTreeSet<&str> = listed.values().map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut files = Vec::with_capacity(names.len());
    for name in &names {
        let opened = CheckpointFile::open_safetensors(&place.with_file_name(name));
        files.push(opened.map_err(|error| match error.status() {
            Status::NotFound => damaged(path, format!("its file '{name}' is missing")),
            _ => error,
        })?);
    }
    let file_of = positions(&names, &files).map_err(|problem| damaged(path, problem))?;
    for (tensor, name) in &listed {
        let position = file_of.get(tensor.as_str());
        if position.is_none_or(|&position| names[position] != name.as_str()) {
            let problem = format!("its file '{name}' does not have tensor '{tensor}'");
            return Err(damaged(path, problem));
        }
    }
    Ok(IndexedFiles {
        source,
        files,
        file_of,
    })
}

/// The position of the file of each tensor. Fails with a message if two files have one.
fn positions(
    names: &[&str],
    files: &[CheckpointFile<'_>],
) -> std::result::Result<HashMap<String, usize>, String> {
    let mut file_of: HashMap<String, usize> = HashMap::new();
    for (position, file) in files.iter().enumerate() {
        for tensor in file.names() {
            if let Some(&other) = file_of.get(tensor) {
                let [one, two] = [names[other], names[position]];
                return Err(format!("tensor '{tensor}' is in '{one}' and in '{two}'"));
            }
            file_of.insert(tensor.to_owned(), position);
        }
    }
    Ok(file_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in [
            "", ".", "..", "a/b", "/a", "../a", "a/", "./a", "a\\b", "c:a", "a\0", "a.json",
            "..\\a", "//a",
        ] {
            assert!(!is_file_name(name), "{name:?}");
        }
        for name in ["a", "model-00001-of-00002.safetensors", "...", "a b", "ä"] {
            assert!(is_file_name(name), "{name:?}");
        }
    }

    #[test]
    fn what_is_no_index_is_refused() {
        let count = |count: usize| {
            let entries: Vec<String> = (0..count).map(|at| format!(r#""{at}":"{at}""#)).collect();
            format!(r#"{{"weight_map":{{{}}}}}"#, entries.join(","))
        };
        let deep = "[".repeat(100_000);
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"weight_map":[]}"#,
            r#"{"weight_map":{"a":1}}"#,
            r#"{"weight_map":{"a":"../a"}}"#,
            r#"{"weight_map":{"a":"x","a":"y"}}"#,
            r#"{"weight_map":{"a":"x"}"#,
            &deep,
            &count(MOST_FILES + 1),
        ] {
            assert!(parsed(wrong.as_bytes()).is_err(), "{wrong:.80}");
        }
        let right = r#"{"metadata":{"total_size":"?"},"weight_map":{"a":"x","b":"x"}}"#;
        assert_eq!(parsed(right.as_bytes()).unwrap().len(), 2);
        assert_eq!(
            parsed(count(MOST_FILES).as_bytes()).unwrap().len(),
            MOST_FILES
        );
    }
}
