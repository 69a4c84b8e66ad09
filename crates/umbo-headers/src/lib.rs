//! Makes the C headers in `include/umbo` from the C layer, for the build script of the package at
//! the top and for the test that compares them with what is committed.
//!
//! Each header has a skeleton, `templates/NAME.h.in`, which a person has written: the
//! introduction, the includes, and where what comes from the sources goes:
//!
//! - `{{declarations FILE}}`: all constants, types and functions of `src/FILE`, except those that
//!   another header takes by name. A header knows types of others by their plain names.
//! - `{{function NAME}}`: one function, which another header would have with its file.
//! - `{{handle NOUN}}`: the inline functions that retain and release handles of this type. What is
//!   special about a release of the last handle follows, up to `{{end}}`.
//! - `{{helpers}}` to `{{end}}`: inline functions that only other inline functions call.
//! - `{{version}}`, `{{version_major}}` and so on: of the package.
//! - `{{options NAME}}`, in the skeleton `FILE.hpp.in` of a file of `include/umbo/cpp`: the C++
//!   struct of a C struct; `{{conversion NAME}}` and `{{reading NAME}}`: the functions that make
//!   the one of the other; `{{enum NAME OWN START}}`: both of an enum, `START` being what its
//!   constants begin with.
//!
//! Bodies of inline functions of more than one line go to `inline/NAME.h`, which the header
//! includes at its end.
//!
//! A struct with `#[c_struct]`, which the caller begins, gets a macro `UMBO_X_INIT`, with the
//! defaults that the attribute says and zeros for the rest. Of `umbo_x_options` the values without
//! the braces are a macro of their own, `umbo_x_options_defaults`, for `UMBO_OPTIONS(umbo_x, ...)`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

mod constants;
mod cpp;
mod declarations;
mod initial;
mod inline;
mod items;
mod layout;

pub use constants::{constant_names, constant_names_file};

use declarations::{declare, declare_item, ownership};
use initial::{Zeros, zeros};
use items::{Declaration, DeclarationKind, items};
use layout::comment;

/// A header: its path below `include/umbo`, such as `tensor.h`, and its text.
pub type HeaderFile = (String, String);

/// The folder of the skeletons.
pub fn skeletons(root: &Path) -> PathBuf {
    root.join("crates/umbo-headers/templates")
}

/// All headers, in the order of their names.
pub fn generate(root: &Path) -> Result<Vec<HeaderFile>, String> {
    let folder = skeletons(root);
    let sources = sources(&root.join("src"))?;
    let zeros = zeros(&sources)?;
    let mut skeletons = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let file = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(name) = file.strip_suffix(".in") {
            skeletons.push((name.to_owned(), read(&path)?));
        }
    }
    let lines = skeletons.iter().flat_map(|(_, skeleton)| skeleton.lines());
    let taken: Vec<&str> = lines
        .filter_map(|line| directive(line, "function "))
        .collect();
    let mut headers = Vec::new();
    for (name, skeleton) in &skeletons {
        let folder = if name.ends_with(".hpp") { "cpp/" } else { "" };
        let mut text = header(skeleton, &sources, &zeros, &taken)
            .map_err(|problem| format!("{name}.in: {problem}"))?;
        if name.ends_with(".h") {
            let (declarations, bodies) = inline::split(name, &text);
            text = declarations;
            headers.extend(bodies.map(|bodies| (format!("inline/{name}"), bodies)));
        }
        headers.push((format!("{folder}{name}"), text));
    }
    headers.sort();
    Ok(headers)
}

/// Writes the headers that differ from what is there, and removes those without a skeleton. Writes
/// the names of constants, too.
pub fn write(root: &Path) -> Result<(), String> {
    let names = constant_names(root)?;
    let path = constant_names_file(root);
    if fs::read_to_string(&path).ok().as_ref() != Some(&names) {
        fs::write(&path, names).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let folder = root.join("include/umbo");
    fs::create_dir_all(folder.join("inline")).map_err(|error| error.to_string())?;
    let headers = generate(root)?;
    for (name, text) in &headers {
        let path = folder.join(name);
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    for name in committed(root)? {
        if !headers.iter().any(|(made, _)| *made == name) {
            fs::remove_file(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

/// The names of the headers that are there, in order.
pub fn committed(root: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for folder in ["", "inline/"] {
        let path = root.join("include/umbo").join(folder);
        let entries =
            fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let found = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let headers = found.filter(|name| name.ends_with(".h"));
        names.extend(headers.map(|name| format!("{folder}{name}")));
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The declarations of the files of the C layer, by their paths below its folder.
type SourceItems = BTreeMap<String, Vec<Declaration>>;

/// Reads the files of a folder, and of the folders in it that are modules.
fn sources(folder: &Path) -> Result<SourceItems, String> {
    let mut found = SourceItems::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.join("mod.rs").exists() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                let items = items(&read(&path)?).map_err(|problem| format!("{name}: {problem}"))?;
                found.insert(name, items);
            }
        }
    }
    Ok(found)
}

/// The header of a skeleton. `taken` names the functions that headers have one by one.
fn header(
    skeleton: &str,
    sources: &SourceItems,
    zeros: &Zeros,
    taken: &[&str],
) -> Result<String, String> {
    let mut text = String::from("/* Generated from src; do not edit. */\n");
    let fields = |name: &str| {
        let mut all = sources.values().flatten().filter(|item| item.name == name);
        match all.next().map(|item| &item.kind) {
            Some(DeclarationKind::Struct(fields)) => Ok(fields),
            _ => Err(format!("{name} is not a struct")),
        }
    };
    let mut lines = skeleton.lines();
    while let Some(line) = lines.next() {
        if let Some(noun) = directive(line, "handle ") {
            let special = lines
                .by_ref()
                .take_while(|line| directive(line, "end").is_none());
            ownership(noun, special.map(str::to_owned).collect(), &mut text);
        } else if let Some(file) = directive(line, "declarations ") {
            let items = sources
                .get(file)
                .ok_or_else(|| format!("{file} is not there"))?;
            declare(items, zeros, taken, &mut text)
                .map_err(|problem| format!("{file}: {problem}"))?;
        } else if let Some(name) = directive(line, "function ") {
            let mut items = sources.values().flatten();
            let item = items.find(|item| item.name == name);
            let item = item.ok_or_else(|| format!("{name} is not there"))?;
            comment(&item.documentation, "", &mut text);
            declare_item(item, &[], zeros, &mut text)?;
        } else if line == "{{helpers}}" {
            text.push_str(&format!("{}\n", inline::HELPERS_BEGIN));
        } else if line == "{{end}}" {
            text.push_str(&format!("{}\n", inline::HELPERS_END));
        } else if let Some(name) = directive(line, "options ") {
            text.push_str(&cpp::options(name, fields(name)?, zeros)?);
        } else if let Some(words) = directive(line, "enum ") {
            let mut words = words.split(' ');
            let [name, cpp_name, start] = std::array::from_fn(|_| words.next().unwrap_or_default());
            let declares = |items: &&Vec<Declaration>| items.iter().any(|item| item.name == name);
            let items = sources.values().find(declares);
            let items = items.ok_or_else(|| format!("{name} is not there"))?;
            text.push_str(&cpp::enumeration(name, cpp_name, start, items));
        } else if let Some(name) = directive(line, "conversion ") {
            text.push_str(&cpp::conversion(name, fields(name)?, zeros)?);
        } else if let Some(name) = directive(line, "reading ") {
            text.push_str(&cpp::reading(name, fields(name)?, zeros)?);
        } else {
            text.push_str(&with_version(line));
            text.push('\n');
        }
    }
    if let Some(start) = text.find("{{") {
        let unknown = text[start..].lines().next().unwrap_or_default();
        return Err(format!("{unknown} is not known"));
    }
    Ok(text)
}

/// The argument of a directive of this name, if the line is one.
fn directive<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.trim()
        .strip_prefix("{{")?
        .strip_suffix("}}")?
        .strip_prefix(name)
}

fn with_version(line: &str) -> String {
    line.replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{version_major}}", env!("CARGO_PKG_VERSION_MAJOR"))
        .replace("{{version_minor}}", env!("CARGO_PKG_VERSION_MINOR"))
        .replace("{{version_patch}}", env!("CARGO_PKG_VERSION_PATCH"))
}
