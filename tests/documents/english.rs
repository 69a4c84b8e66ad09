//! Comments of the sources are sentences that a reader understands at once: see
//! "English" in CONTRIBUTING.md.

use std::fs;
use std::path::{Path, PathBuf};

/// Words with which no comment begins that says what an item is: a noun says it.
const OPENERS: [&str; 5] = ["What", "Lets", "Those", "Who", "So"];

/// Phrases that stand in no comment and in no message.
const PHRASES: [&str; 11] = [
    "whose they are",
    "whose it is",
    "those that there are",
    "one that there is not",
    "thing of no kind",
    "somebody else keeps",
    "goes on growing",
    "does besides",
    "the middle one",
    "is no error",
    "are no scalars",
];

/// Adds the sources in `folder` and in the folders below it.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The text of a line that is a comment of an item or of a file.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("/// ")
        .or_else(|| line.strip_prefix("//! "))
}

/// The mistakes of a source, each with the number of its line.
fn mistakes(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let opens = comment(before).is_none();
        if let Some(text) = comment(line).filter(|_| opens) {
            let word = text.split_whitespace().next().unwrap_or_default();
            if OPENERS.contains(&word) {
                found.push((number + 1, format!("the comment begins with '{word}'")));
            }
        }
        for phrase in PHRASES.iter().filter(|phrase| line.contains(**phrase)) {
            found.push((number + 1, format!("'{phrase}'")));
        }
        before = line;
    }
    found
}

#[test]
fn comments_begin_with_nouns_and_banned_phrases_are_not_used() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut paths = Vec::new();
    for folder in ["crates", "macros", "src", "tool"] {
        sources(&root.join(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root).unwrap().display();
        let lines = mistakes(&text).into_iter();
        found.extend(lines.map(|(number, mistake)| format!("{path}:{number}: {mistake}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn mistakes_are_found_in_the_first_line_of_a_comment() {
    let text = "/// What it is.\n/// What more.\nstruct A;\n// whose they are\n/// A noun.\n";
    let lines: Vec<_> = mistakes(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 4]);
}
