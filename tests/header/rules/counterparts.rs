//! Counterparts of the C headers: in C++, and in the tests in C.

use std::collections::BTreeSet;
use std::path::Path;

use super::{code, fields, headers, name_of};
use crate::committed_headers;

/// The interpreter of the cases calls what is exported, so inline functions are called by a C test.
#[test]
fn inline_functions_have_tests_in_c() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let files = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let tests: String = files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut seen = 0;
    for (header, text) in headers() {
        for part in code(text).split("static inline ").skip(1) {
            let name = part
                .split('(')
                .next()
                .unwrap()
                .rsplit([' ', '*'])
                .next()
                .unwrap();
            if !name.starts_with("umbo_") {
                continue;
            }
            let called = ["(", ","]
                .iter()
                .any(|end| tests.contains(&format!("{name}{end}")));
            assert!(called, "{header}: no test in C calls {name}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn every_constant_of_an_enum_has_a_counterpart_in_cpp() {
    let files = std::fs::read_dir(committed_headers().join("cpp"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let texts: Vec<_> = files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let of_cpp: BTreeSet<_> = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.split_once(" = ")?.1.strip_suffix(','))
        .collect();
    let mut seen = 0;
    for (_, text) in headers() {
        for body in code(text).split("typedef enum ").skip(1) {
            let body = body.split('}').next().expect("it ends");
            // Those of DLPack have no name there.
            if body.starts_with("UMBO_INT32 ") {
                continue;
            }
            // A sum of flags is not a constant of its enum.
            if body.starts_with("umbo_view_flags ") {
                continue;
            }
            for line in body
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("UMBO_"))
            {
                let name = line.split(' ').next().expect("a part");
                assert!(
                    of_cpp.contains(name),
                    "{name} is in no enum of include/umbo/cpp; they are made from \
                     crates/umbo-headers/templates"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 80, "{seen}");
}

/// The options that a text of C++ fills in, each with the function around them from there on.
fn filled_in(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let lines = text.match_indices("_OPTIONS_INIT;").map(|(end, _)| {
        let start = text[..end].rfind('\n').map_or(0, |before| before + 1);
        &text[start..]
    });
    lines.filter_map(|rest| {
        let line = rest.lines().next()?;
        let (owner, rest_of_line) = line.trim_start().split_once(' ')?;
        let (variable, _) = rest_of_line.split_once(" = ")?;
        // The function ends with a brace that is indented less than its statements.
        let indentation = &line[4..line.len() - line.trim_start().len()];
        let body = rest.split(&format!("\n{indentation}}}\n")).next()?;
        Some((owner, variable, body))
    })
}

#[test]
fn every_option_of_c_is_set_by_cpp() {
    // The functions that take the callable, or draw the elements, set these.
    let elsewhere = [
        ("umbo_strategy_options", "replica_thread_start"),
        ("umbo_strategy_options", "replica_thread_stop"),
        ("umbo_strategy_options", "replica_thread_user_data"),
        ("umbo_strategy_options", "replica_thread_user_data_destroy"),
        ("umbo_variable_options", "initializer"),
        ("umbo_variable_options", "initializer_user_data"),
    ];
    let all: Vec<_> = headers().flat_map(|(_, text)| fields(text)).collect();
    let mut seen = 0;
    for entry in std::fs::read_dir(committed_headers().join("cpp")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for (owner, variable, body) in filled_in(&text) {
            for (_, field) in all.iter().filter(|(name, _)| name == owner) {
                let field = name_of(field);
                if ["struct_size", "user_data_destroy"].contains(&field)
                    || elsewhere.contains(&(owner, field))
                {
                    continue;
                }
                assert!(
                    body.contains(&format!("{variable}.{field} =")),
                    "include/umbo/cpp does not set {owner}.{field}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}
