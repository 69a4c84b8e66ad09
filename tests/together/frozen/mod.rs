//! Saved formats: files that were saved once load with the values that the tests name, and what is
//! saved now has the same form.
//!
//! The files are in `tests/frozen`. If a format changes on purpose, this saves them anew, and
//! `docs/internals/formats.md` says what belongs to such a change:
//!
//! ```sh
//! UPDATE_FROZEN=1 cargo test --test together frozen
//! ```

mod manager;
mod one_process;
mod positions;
mod several_ranks;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value as Json;
use umbo_core::input::PassIterator;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::Value;

use super::saving::Folder;

/// The folder of the frozen files, after they were saved anew if that is asked for.
fn frozen() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("frozen");
        if std::env::var_os("UPDATE_FROZEN").is_some() {
            let _ = fs::remove_dir_all(&folder);
            save_all(&folder);
        }
        folder
    });
    &FOLDER
}

fn save_all(folder: &Path) {
    let within = |name: &str| {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    one_process::save(&within("one_process"));
    several_ranks::save(&within("several_ranks"));
    manager::save(&within("manager"));
    positions::save(&within("positions"));
}

/// The paths of all files below a folder, from there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.append(&mut self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// The fields of Umbo's metadata in a file, and its elements.
fn contents(path: &Path) -> (Json, Vec<u8>) {
    let file = fs::read(path).unwrap();
    let (length, rest) = file.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let (header, elements) = rest.split_at(length);
    let header: Json = serde_json::from_slice(header).unwrap();
    let text = header["__metadata__"]["umbo.checkpoint"].as_str().unwrap();
    (serde_json::from_str(text).unwrap(), elements.to_vec())
}

/// All that is saved in a folder by the names of the files, except for what follows from the
/// library's version: that is in the metadata, and so in their checksums and in the names of parts.
fn form(folder: &Path) -> BTreeMap<String, String> {
    let mut form = BTreeMap::new();
    for path in files(folder) {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        let text = match path.extension().unwrap().to_str() {
            Some("safetensors") => {
                let (mut metadata, elements) = contents(&path);
                metadata["library"] = Json::Null;
                for part in metadata["parts"].as_array_mut().into_iter().flatten() {
                    part["file"] = part["file"].as_str().map(unnumbered).into();
                    part["crc32"] = Json::Null;
                }
                format!("{metadata:#}\n{elements:02x?}")
            }
            _ => fs::read_to_string(&path).unwrap(),
        };
        form.insert(unnumbered(name), text);
    }
    form
}

/// The name of a part without the number of the save.
fn unnumbered(name: &str) -> String {
    match name.split_once("-of-") {
        Some((start, end)) => {
            let (start, rank) = start.rsplit_once('-').unwrap();
            let (start, _number) = start.rsplit_once('.').unwrap();
            format!("{start}.NUMBER-{rank}-of-{end}")
        }
        None => name.to_owned(),
    }
}

#[test]
fn what_is_saved_now_has_the_form_of_the_frozen_files() {
    let now = Folder::new("frozen");
    save_all(now.path());
    let now = form(now.path());
    let frozen = form(frozen());
    let advice =
        "a saved format has changed; docs/internals/formats.md says what to do if it should";
    let names = |form: &BTreeMap<String, String>| form.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&now), names(&frozen), "{advice}");
    for (name, text) in &frozen {
        assert!(
            now[name] == *text,
            "{advice}: {name}:\n{text}\nis now\n{}",
            now[name]
        );
    }
}

/// The elements of a tensor as numbers.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    let tensor = tensor.to_contiguous().unwrap();
    match tensor.dtype() {
        DType::Float64 => tensor.to_vec::<f64>().unwrap(),
        DType::Int64 => {
            let numbers = tensor.to_vec::<i64>().unwrap().into_iter();
            numbers.map(|number| number as f64).collect()
        }
        DType::Int32 => {
            let numbers = tensor.to_vec::<i32>().unwrap().into_iter();
            numbers.map(f64::from).collect()
        }
        _ => {
            let numbers = tensor.to_vec::<f32>().unwrap().into_iter();
            numbers.map(f64::from).collect()
        }
    }
}

/// The numbers in all tensors of an element, of all replicas.
fn in_element(element: &Value, to: &mut Vec<f64>) {
    match element {
        Value::Tensor(tensor) => to.append(&mut numbers(tensor)),
        Value::Nest(nest) => nest.items().iter().for_each(|item| in_element(item, to)),
        Value::PerReplica(parts) => {
            let parts = parts.values();
            parts.iter().for_each(|part| in_element(part, to));
        }
        other => panic!("{other:?}"),
    }
}

/// The numbers in each of the next elements, at most `count`.
fn next(iterator: &PassIterator, count: usize) -> Vec<Vec<f64>> {
    let elements = std::iter::from_fn(|| {
        let element = iterator.next().unwrap()?;
        let mut numbers = Vec::new();
        in_element(&element, &mut numbers);
        Some(numbers)
    });
    elements.take(count).collect()
}

/// The number of the next step.
fn next_step(strategy: &Strategy) -> u64 {
    let number = std::sync::Mutex::new(0);
    let callback = |context: &ReplicaContext| {
        *number.lock().unwrap() = context.step_number();
        Ok(None)
    };
    strategy.run(&callback, None).unwrap();
    number.into_inner().unwrap()
}
