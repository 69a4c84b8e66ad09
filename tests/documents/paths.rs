//! The pages for those who change the library name files and folders that are there.

use std::fs;

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
