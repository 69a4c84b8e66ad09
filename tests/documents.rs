//! What the documents name must be there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.push(root().join("README.md"));
    all.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_name_of_the_api_is_in_a_header() {
    let entries = fs::read_dir(root().join("include/umbo")).unwrap();
    let headers: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let headers = headers.iter().filter(|path| path.extension().is_some_and(|end| end == "h"));
    let headers: String = headers.map(|path| fs::read_to_string(path).unwrap()).collect();
    let known: BTreeSet<&str> = words(&headers).collect();
    // CMake's options and variables, and patterns such as UMBO_X_INIT, are not the header's.
    let elsewhere = |name: &str| {
        ["UMBO_BUILD_", "UMBO_INSTALL", "UMBO_RUST", "UMBO_CARGO", "UMBO_USE_", "UMBO_CASES"]
            .iter()
            .any(|start| name.starts_with(start))
            || name.starts_with("umbo_x")
            || name.starts_with("UMBO_X")
    };
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let names = words(&text).filter(|word| {
            (word.starts_with("umbo_") || word.starts_with("UMBO_")) && !elsewhere(word)
        });
        let missing: BTreeSet<_> = names.filter(|name| !known.contains(name)).collect();
        assert!(missing.is_empty(), "{}: in no header: {missing:?}", document.display());
    }
}

#[test]
fn every_link_leads_to_a_file() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !target.contains("://") && !target.starts_with('#') {
                let file = document.parent().unwrap().join(target.split('#').next().unwrap());
                assert!(file.exists(), "{}: no {target}", document.display());
            }
        }
    }
}
