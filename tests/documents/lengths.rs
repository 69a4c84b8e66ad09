//! How long the programs are that show how little a program needs.

use std::fs;

use super::root;

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
