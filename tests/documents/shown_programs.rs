//! What users see first, the README and the programs in `c_examples` and in documents: how long
//! they are, and that the programs write options in the one form.

use std::fs;

use super::rules::sources;
use super::{documents, root};

/// Whether a line calls a function of the library.
fn calls_the_library(line: &str) -> bool {
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("umbo_") {
        let name = after.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '_');
        if name.starts_with('(') {
            return true;
        }
        rest = after;
    }
    false
}

#[test]
fn the_readme_is_short_and_leads_to_the_trainer() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.len() <= 8192, "{} bytes", text.len());
    let before_the_list = text.split("\n- ").next().unwrap();
    assert!(before_the_list.contains("(docs/trainer.md)"));
    // Lines that a patch replaces.
    let patch = fs::read_to_string(root().join("c_examples/loops/mnist.diff")).unwrap();
    let removed = patch
        .lines()
        .skip(2)
        .filter(|line| line.starts_with('-'))
        .count();
    assert!(removed == 4 && text.contains("in four changed lines"));
}

/// `scripts/release.sh` writes the day into all of them.
#[test]
fn a_release_has_one_day_in_all_places() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let manifest = read("Cargo.toml");
    let (_, version) = manifest.split_once("\nversion = \"").unwrap();
    let version = version.split('"').next().unwrap();
    let changes = read("CHANGELOG.md");
    let (_, rest) = changes.split_once(&format!("\n## [{version}] - ")).unwrap();
    let day = rest.lines().next().unwrap();
    let readme = read("README.md");
    assert!(readme.contains(&format!("umbo-{version}-Linux-x86_64.tar.gz")));
    let is_released = day != "YYYY-MM-DD";
    let said = format!("\n{version}, released on {day}.");
    assert_eq!(readme.contains(&said), is_released, "{said}");
    let archive = root().join(format!("tests/abi/released/{version}.tar.xz"));
    assert_eq!(archive.exists(), is_released, "{}", archive.display());
}

#[test]
fn the_lines_of_the_program_with_kann_are_counted() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let lines = read("c_examples/engines/kann.c").lines().count();
    let said = format!("a whole program of {lines} lines");
    assert!(read("docs/engines.md").contains(&said), "{said}");
}

#[test]
fn linear_regression_in_c_is_short() {
    let path = root().join("c_examples/02_linear_regression.c");
    let text = fs::read_to_string(path).unwrap();
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(120), "a line of {longest:?} columns");
    let lines = text.lines().count();
    assert!(lines <= 50, "{lines} lines");
    let calls = text.lines().filter(|line| calls_the_library(line)).count();
    assert!((10..=20).contains(&calls), "{calls} lines call the library");
}

#[test]
fn a_call_is_told_from_a_type() {
    assert!(calls_the_library(
        "  UMBO_TRY(umbo_gradients_submit(gradients, ctx));"
    ));
    assert!(calls_the_library(
        "  const umbo_view rows = umbo_view_of_memory("
    ));
    assert!(!calls_the_library("  umbo_view rows, weights; f(rows);"));
    assert!(!calls_the_library(
        "  UMBO_CHECK(f()); /* of umbo_strategy */"
    ));
}

/// Whether a line of C, also of a patch, begins a variable of options, which is what `UMBO_OPTIONS`
/// is for.
fn begins_options(line: &str) -> bool {
    let line = line.trim_start_matches(['+', ' ']);
    line.starts_with("umbo_") && line.contains("_options ") && line.contains("_OPTIONS_INIT")
}

#[test]
fn options_are_given_in_one_expression() {
    let mut paths = Vec::new();
    sources(&root().join("c_examples"), &mut paths);
    paths.retain(|path| path.extension().is_some_and(|end| end == "c"));
    assert!(paths.len() > 15, "{}", paths.len());
    let mut given = 0;
    for path in paths.into_iter().chain(documents()) {
        let text = fs::read_to_string(&path).unwrap();
        let line = text.lines().find(|line| begins_options(line));
        assert_eq!(line, None, "{}", path.display());
        given += text.matches("&UMBO_OPTIONS(").count();
    }
    assert!(given > 40, "{given}");
    assert!(begins_options(
        "+  umbo_sgd_options rate = UMBO_SGD_OPTIONS_INIT;"
    ));
}
