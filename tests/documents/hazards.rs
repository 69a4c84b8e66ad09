//! The table of mistakes that compile, and the tests that make them.

use std::collections::BTreeSet;
use std::fs;

use super::root;

/// The arguments of the calls `hazard("…")` of a test.
fn mistakes_of(test: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(test)).unwrap();
    let calls = text.split("hazard(\"").skip(1);
    let mistakes = calls.map(|rest| {
        let (mistake, _) = rest.split_once("\");").unwrap();
        mistake.replace("\\\"", "\"")
    });
    mistakes.filter(|mistake| !mistake.is_empty()).collect()
}

#[test]
fn each_mistake_of_the_table_is_made_by_a_test() {
    let page = fs::read_to_string(root().join("docs/internals/mistakes.md")).unwrap();
    let (_, part) = page.split_once("\n## Mistakes that compile\n").unwrap();
    let (part, _) = part.split_once("\n## ").unwrap_or((part, ""));
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    let listed: BTreeSet<String> = rows
        .map(|row| row["| ".len()..].split(" | ").next().unwrap().to_owned())
        .collect();
    let mut made = mistakes_of("tests/c/test_hazards.c");
    made.extend(mistakes_of("tests/cpp/test_hazards.cpp"));
    assert!(listed.len() > 15, "{listed:?}");
    assert_eq!(listed, made);
}
