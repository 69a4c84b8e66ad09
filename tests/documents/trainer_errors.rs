//! The errors that trainer.h names, and those that the tests of trainers in C make: the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{root, words};

const STATUS: &str = "UMBO_STATUS_";

/// Errors that need more than a program in C alone, with the tests that make them.
const ELSEWHERE: &[(&str, &str, &str)] = &[(
    "umbo_trainer_create_with_arrays",
    "UMBO_STATUS_UNIMPLEMENTED",
    "tests/gpu/test_gpu.c",
)];

/// An error that a function of the program's returns, and the trainer passes on.
const OF_LEARN: &str = "UMBO_STATUS_ABORTED";

/// By function: the documentation of each in a header.
fn documentation(header: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(header)).unwrap();
    let mut documented = BTreeMap::new();
    for part in text.split("/**").skip(1) {
        let (comment, rest) = part.split_once("*/").unwrap();
        let declared = rest.trim_start().strip_prefix("UMBO_MUST_USE ");
        let Some((head, _)) = declared.and_then(|rest| rest.split_once('(')) else {
            continue;
        };
        let name = words(head).last().unwrap();
        documented.insert(name.to_owned(), comment.to_owned());
    }
    documented
}

fn statuses(text: &str) -> BTreeSet<String> {
    words(text)
        .filter(|word| word.starts_with(STATUS))
        .map(str::to_owned)
        .collect()
}

/// The function whose errors are those of `comment`, too.
fn referred(comment: &str) -> Option<&str> {
    let (_, rest) = comment.split_once("@return As ")?;
    rest.split_once("()").map(|(name, _)| name)
}

/// The calls `CHECK_STATUS(name(…), status)` of a test.
fn checked(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for rest in text.split("CHECK_STATUS(").skip(1) {
        let (name, arguments) = rest.split_once('(').unwrap();
        let mut depth = 1;
        let end = arguments.find(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            depth == 0
        });
        let after = arguments[end.unwrap()..].trim_start_matches([')', ',', ' ', '\n']);
        if let Some(status) = words(after).next().filter(|word| word.starts_with(STATUS)) {
            found.push((name.trim().to_owned(), status.to_owned()));
        }
    }
    found
}

/// By function: the errors that the tests of trainers make it return.
fn tested() -> BTreeMap<String, BTreeSet<String>> {
    let mut tested: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir(root().join("tests/c")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with("test_trainer") {
            continue;
        }
        for (function, status) in checked(&fs::read_to_string(&path).unwrap()) {
            tested.entry(function).or_default().insert(status);
        }
    }
    for (function, status, test) in ELSEWHERE {
        let text = fs::read_to_string(root().join(test)).unwrap();
        let call = ((*function).to_owned(), (*status).to_owned());
        assert!(checked(&text).contains(&call), "{test}: {call:?}");
        tested.entry(call.0).or_default().insert(call.1);
    }
    tested
}

#[test]
fn calls_are_found_over_several_lines() {
    let text = "CHECK_STATUS(f(a, (int)b),\n   UMBO_STATUS_ABORTED);\nCHECK_STATUS(g(), other);";
    assert_eq!(
        checked(text),
        [("f".to_owned(), "UMBO_STATUS_ABORTED".to_owned())]
    );
}

#[test]
fn the_errors_that_trainers_name_are_those_that_tests_make() {
    let documented = documentation("include/umbo/trainer.h");
    let files = documentation("include/umbo/io.h");
    let tested = tested();
    // Functions that refer to another one share its errors.
    let root_of = |function: &str| {
        let mut at = function.to_owned();
        while let Some(other) = documented.get(&at).and_then(|comment| referred(comment)) {
            at = other.to_owned();
        }
        at
    };
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut made = named.clone();
    for (function, comment) in &documented {
        let root = root_of(function);
        named
            .entry(root.clone())
            .or_default()
            .extend(statuses(comment));
        let made = made.entry(root).or_default();
        made.extend(tested.get(function).cloned().unwrap_or_default());
    }
    assert!(named.values().map(BTreeSet::len).sum::<usize>() > 15);
    for (function, made) in &made {
        let listed = &named[function];
        // What a function of io.h names has tests of its own.
        let there = files.get(function).map(|comment| statuses(comment));
        let mut allowed = listed | &there.unwrap_or_default();
        let learns = documented.get(function).map(String::as_str);
        if learns.is_some_and(|comment| comment.contains("What `learn` returned")) {
            allowed.insert(OF_LEARN.to_owned());
        }
        let unnamed: Vec<_> = made.difference(&allowed).collect();
        assert!(
            unnamed.is_empty(),
            "{function}: its header does not name {unnamed:?}"
        );
        let untested: Vec<_> = listed.difference(made).collect();
        assert!(
            untested.is_empty(),
            "{function}: no test makes {untested:?}"
        );
    }
}
