//! The pages for those who change the library name files and folders that are there.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// The pages, each with the least number of paths in it.
const PAGES: [(&str, usize); 5] = [
    ("docs/internals/architecture.md", 60),
    ("docs/internals/contributing-notes.md", 3),
    ("docs/internals/decisions.md", 30),
    ("docs/internals/operating-system.md", 1),
    ("CONTRIBUTING.md", 30),
];

/// Whether a file or folder has this path, from the top or, without `crates/umbo-` and `src/`, in
/// a crate.
fn is_there(path: &str) -> bool {
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let in_crate = format!("crates/umbo-{name}/src/{rest}");
    root().join(path).exists() || root().join(in_crate).exists()
}

/// The paths among the words in backticks. Names in capitals or in brackets stand for others, a
/// path from the root is the system's, and what is built is not part of the sources.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter(|word| {
        let is_pattern = word.contains([' ', '*', '<', '(', ':'])
            || word.contains("NAME")
            || word.contains("NOUN");
        let is_elsewhere = ["/", "target/", "build/"]
            .iter()
            .any(|start| word.starts_with(start));
        word.contains('/') && !is_pattern && !is_elsewhere
    })
}

#[test]
fn paths_on_the_pages_of_contributors_lead_to_files() {
    let mut missing = Vec::new();
    for (page, least) in PAGES {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let named: Vec<&str> = paths(&text).collect();
        assert!(named.len() >= least, "{page} names {} paths", named.len());
        let absent = named.into_iter().filter(|path| !is_there(path));
        missing.extend(absent.map(|path| format!("{page}: {path}")));
    }
    assert!(missing.is_empty(), "no such file: {missing:#?}");
}

/// Adds the pages in `folder` and in the folders below it.
fn pages_of_crates(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages_of_crates(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

#[test]
fn files_that_pages_in_the_crates_name_exist() {
    let mut pages = Vec::new();
    pages_of_crates(&root().join("crates"), &mut pages);
    assert!(!pages.is_empty());
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let quoted = text
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2));
        let files = quoted.filter(|word| word.contains('/') || word.ends_with(".rs"));
        let folder = page.parent().unwrap();
        let absent =
            files.filter(|file| !folder.join(file).exists() && !root().join(file).exists());
        missing.extend(absent.map(|file| format!("{}: {file}", page.display())));
    }
    assert!(missing.is_empty(), "no such file: {missing:#?}");
}
