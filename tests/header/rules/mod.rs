//! The rules that all declarations keep: one order, one word, one type for each thing.

mod counterparts;
mod order;
mod words;

use std::collections::BTreeSet;

use crate::{committed_headers, generated, header};

/// The headers for C.
fn headers() -> impl Iterator<Item = &'static (String, String)> {
    let all = generated().iter();
    all.filter(|(name, _)| name.ends_with(".h") && !name.starts_with("inline/"))
}

/// The text without comments.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("the comment ends").1;
    }
    code + rest
}

/// What is said in comments, a line each.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| matches!(line.trim_start().as_bytes(), [b'*', ..] | [b'/', b'*', ..]))
}

/// The functions that are exported or inline, each with its parameters.
fn functions(text: &str) -> Vec<(String, Vec<String>)> {
    let code = code(text);
    let mut found = Vec::new();
    for start in ["UMBO_API ", "static inline "] {
        for prototype in code.split(start).skip(1) {
            let Some((head, rest)) = prototype.split_once('(') else {
                continue;
            };
            let Some(name) = head
                .rsplit([' ', '*'])
                .next()
                .filter(|name| name.starts_with("umbo_"))
            else {
                continue;
            };
            let list = rest.split(')').next().expect("it ends");
            let one = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((name.to_owned(), list.split(',').map(one).collect()));
        }
    }
    found
}

/// The fields of structs, as they are declared.
fn fields(text: &str) -> Vec<(String, String)> {
    let code = code(text);
    let mut found = Vec::new();
    for body in code.split("typedef struct ").skip(1) {
        let Some((name, rest)) = body.split_once(" {\n") else {
            continue;
        };
        if name.contains(';') {
            continue;
        }
        let body = rest.split("\n}").next().expect("it ends");
        found.extend(
            body.split(';')
                .map(|field| (name.to_owned(), field.trim().to_owned())),
        );
    }
    found.retain(|(_, field)| !field.is_empty());
    found
}

fn name_of(declaration: &str) -> &str {
    let before = declaration.split('[').next().expect("a part");
    before.rsplit([' ', '*']).next().expect("a name")
}

/// All parameters and fields: where each stands, and its declaration.
fn declarations() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            all.extend(parameters.into_iter().map(|one| (function.clone(), one)));
        }
        all.extend(fields(text));
    }
    assert!(all.len() > 700, "only {} were found", all.len());
    all
}

/// A header is a page to read: it comes to the point.
#[test]
fn headers_begin_with_declarations() {
    for (header, text) in headers() {
        let declaration = |line: &str| {
            ["typedef ", "UMBO_", "static inline", "#define UMBO_"]
                .iter()
                .any(|start| line.starts_with(start))
                && !line.ends_with("_H")
        };
        let first = text.lines().position(declaration).unwrap_or(0);
        // core.h begins with what holds for all, umbo.h with a program, dlpack.h has the structs of
        // others.
        let is_special = ["core.h", "umbo.h", "dlpack.h"].contains(&header.as_str());
        assert!(
            first < 40 || is_special,
            "{header}: the first declaration is in line {}",
            first + 1
        );
    }
}

/// `umbo.h` has what a trainer needs; the rest is in headers that are included by name.
#[test]
fn a_trainer_sees_about_120_functions() {
    let folder = committed_headers();
    let text = header::with_included(&folder.join("umbo.h"), &mut BTreeSet::new()).unwrap();
    let found = code(&text).matches("UMBO_API umbo_status ").count();
    assert!((100..=125).contains(&found), "{found}");
}
