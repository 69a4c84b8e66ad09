//! The page of the saved formats names what the sources save.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::root;

/// The literals that follow `beginning` in the sources below a folder, without their unit tests.
fn literals(folder: &Path, beginning: &str) -> BTreeSet<String> {
    let mut literals = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            literals.append(&mut self::literals(&path, beginning));
            continue;
        }
        let text = fs::read_to_string(path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for rest in text.split(beginning).skip(1) {
            literals.insert(rest.split('"').next().unwrap().to_owned());
        }
    }
    literals
}

#[test]
fn the_signatures_of_operations_are_in_the_page_of_formats() {
    let page = fs::read_to_string(root().join("docs/internals/formats.md")).unwrap();
    let (_, table) = page
        .split_once("| kind | parameters |\n|---|---|\n")
        .unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let (kinds, parameters): (Vec<&str>, Vec<&str>) = table
        .lines()
        .filter_map(|row| row.strip_prefix("| ")?.split_once(" |"))
        .unzip();
    let quoted = |cells: &[&str]| -> BTreeSet<String> {
        let cells = cells.iter().flat_map(|cell| cell.split('`').skip(1));
        cells.step_by(2).map(str::to_owned).collect()
    };
    let input = root().join("crates/umbo-input/src");
    let saved = literals(&input, "Signature::new(\"");
    assert!(saved.len() > 15, "{saved:?}");
    assert_eq!(quoted(&kinds), saved);
    let parameters = quoted(&parameters);
    let missing: Vec<String> = literals(&input, ".with(\"")
        .into_iter()
        .filter(|name| !parameters.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
