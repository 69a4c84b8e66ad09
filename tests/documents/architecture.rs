//! The map of the modules, as docs/internals/architecture.md draws and words it, is what the sources import.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::circles;

/// What each module imports, or what stands for that.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// The code of all files below `path`, without comments and unit tests.
fn code(path: &Path) -> String {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        return entries.map(|entry| code(&entry.unwrap().path())).collect();
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return String::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let without_tests = text.split("\nmod tests {").next().unwrap();
    let lines = without_tests.lines().map(|line| line.split("//").next().unwrap());
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn of_the_sources() -> Imports {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name != "lib" {
            files.insert(name, code(&path));
        }
    }
    let imported = |own: &str, code: &str| {
        assert!(!code.contains("crate::{"), "{own}: a line for each module is easier to find");
        let names = code.split("crate::").skip(1).map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest[..end.unwrap_or(rest.len())].to_owned()
        });
        names.filter(|name| files.contains_key(name) && name != own).collect()
    };
    files.iter().map(|(own, code)| (own.clone(), imported(own, code))).collect()
}

/// All that is reached from `from` by one step or more.
fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in imports.get(module).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

fn drawn() -> Imports {
    let picture = read("docs/pictures/architecture.svg");
    let mut arrows = Imports::new();
    for arrow in picture.split("data-from=\"").skip(1) {
        let mut words = arrow.split('"');
        let from = words.next().unwrap();
        let (name, to) = (words.next().unwrap(), words.next().unwrap());
        if name == " data-to=" {
            arrows.entry(from.to_owned()).or_default().insert(to.to_owned());
        }
    }
    arrows
}

#[test]
fn the_arrows_of_the_picture_are_the_imports_of_the_sources() {
    let (imports, arrows) = (of_the_sources(), drawn());
    assert!(arrows.len() > 10, "{arrows:?}");
    let picture = read("docs/pictures/architecture.svg");
    for (module, imported) in &imports {
        assert!(picture.contains(&format!(">{module}<")), "the picture has no {module}");
        let said = reached(&arrows, module);
        let missing: Vec<_> = imported.difference(&said).collect();
        assert!(missing.is_empty(), "no arrows lead from {module} to {missing:?}");
    }
    for (module, pointed) in &arrows {
        for to in pointed {
            assert!(imports[module].contains(to), "{module} does not import {to}");
            let other_way = pointed.iter().any(|next| reached(&arrows, next).contains(to));
            assert!(!other_way, "{module} to {to} is said by other arrows");
        }
        assert!(!reached(&arrows, module).contains(module), "arrows lead around from {module}");
    }
}

/// The layers of the documents, from the top down.
fn layers(document: &str) -> Vec<Vec<String>> {
    let text = read(document);
    let (_, block) = text.split_once(" Imports run one way:\n\n").unwrap();
    let block = block.split("\n\n").next().unwrap();
    let is_part = |c: char| !c.is_ascii_lowercase() && c != '_';
    let words = |layer: &str| {
        layer.split(is_part).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    block.split("->").map(words).collect()
}

#[test]
fn imports_lead_down_the_layers() {
    let imports = of_the_sources();
    let layers = layers("docs/internals/architecture.md");
    let layer =
        |module: &str| layers.iter().position(|layer| layer.iter().any(|name| name == module));
    for (module, imported) in &imports {
        let own = layer(module).unwrap_or_else(|| panic!("no layer has {module}"));
        for other in imported {
            let theirs = layer(other).unwrap_or_else(|| panic!("no layer has {other}"));
            assert!(own < theirs, "{module} imports {other}, which does not lie below it");
        }
    }
}

/// Editors, patches and merges leave such files behind.
fn is_left_behind(name: &str) -> bool {
    let ends = [".orig", ".rej", ".bak", "~", ".swp", ".swo", ".tmp", ".patch", ".diff", ".pyc"];
    ends.iter().any(|end| name.ends_with(end)) || name == "core"
}

#[test]
fn nothing_is_left_behind() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // What git is told to ignore is not part of the project.
    let ignored = read(".gitignore");
    let ignored: BTreeSet<_> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    let mut folders = vec![root.to_owned()];
    let (mut seen, mut found) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            seen += 1;
            if name == ".git" || ignored.contains(&*name) {
                continue;
            } else if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if is_left_behind(&name) {
                found.push(entry.path());
            }
        }
    }
    assert!(seen > 1000, "only {seen} files were looked at");
    assert!(found.is_empty(), "remove what is no part of the project: {found:?}");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let imports = circles::imports();
    let arrows: usize = imports.values().map(BTreeMap::len).sum();
    assert!(imports.len() > 400 && arrows > 2000, "{} files, {arrows} imports", imports.len());
    let mut found = String::new();
    for circle in circles::circles(&imports) {
        found += &format!("\n{} files import each other:\n", circle.len());
        for file in &circle {
            for (other, names) in imports[file].iter().filter(|(other, _)| circle.contains(*other))
            {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                found += &format!("  {file} -> {other}: {}\n", names.join(", "));
            }
        }
    }
    let advice = "move what both need into a file of its own";
    assert!(found.is_empty(), "{advice}{found}");
}
