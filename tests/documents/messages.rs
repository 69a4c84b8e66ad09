//! Messages, the public headers, the tool and scripts say nothing over which readers stumble.

use std::fs;
use std::path::Path;

use super::root;

/// Phrases that stand in no text that users see, with better ones.
const PHRASES: [(&str, &str); 17] = [
    ("beside", "next to, compared with, at the same time"),
    ("fight", "compete"),
    ("holds you up", "is the bottleneck"),
    ("serialises your", "waits for"),
    ("are the most", "at most ... are possible"),
    ("is the most", "at most ... is possible"),
    ("there counts", "is used"),
    ("that counts", "is used"),
    ("which counts", "is used"),
    ("somebody", "another program, or the passive"),
    ("for ever", "without limit, or it deadlocks"),
    ("in a circle", "in a cycle"),
    ("no further use", "can no longer be used"),
    ("in any case", "always, or the case itself"),
    ("same bits", "bit-identical"),
    ("never was a", "an arbitrary value"),
    ("means nothing", "is not one of the values"),
];

/// Ends of folders and files that hold no text of users: unit tests.
fn is_of_tests(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str();
        name == "tests" || name == "tests.rs"
    })
}

/// The string literals of a source in Rust, C or C++, each with the number of its first line. A
/// `\` at the end of a line continues a literal in the next one, as one text.
fn literals(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut code = String::new();
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("//") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = rest.split_once("*/").map_or("", |(_, after)| after);
        } else if let Some(length) = character(rest) {
            rest = &rest[length..];
        } else if letter == '"' {
            let (literal, after) = quoted(&rest[1..], &code);
            // The reason for an exception to a lint is for those who change the source.
            if !code.trim_end().ends_with("reason =") {
                let line = text[..text.len() - rest.len()].matches('\n').count() + 1;
                found.push((line, literal));
            }
            code.clear();
            rest = after;
        } else {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    found
}

/// The length of the literal of a character, such as `'"'`, at the beginning of a text; a lifetime
/// is none.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let end = match inner.strip_prefix('\\') {
        Some(escaped) => escaped.get(1..)?.find('\'')? + 2,
        None => inner.chars().next()?.len_utf8(),
    };
    (end < 12 && inner[end..].starts_with('\'')).then_some(end + 2)
}

/// The literal that follows a quotation mark, and the text behind it. `before`: the code before
/// the mark, which ends with `r` or `r#` where the literal is raw.
fn quoted<'a>(text: &'a str, before: &str) -> (String, &'a str) {
    let marks = before.len() - before.trim_end_matches('#').len();
    if before.trim_end_matches('#').ends_with('r') {
        let end = format!("\"{}", "#".repeat(marks));
        let (literal, after) = text.split_once(&*end).unwrap_or((text, ""));
        return (literal.to_owned(), after);
    }
    let mut is_escaped = false;
    let end = text.find(|letter| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends
    });
    let (literal, after) = text.split_at(end.unwrap_or(text.len()));
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |text, line| text + line.trim_start());
    (joined, after.get(1..).unwrap_or_default())
}

/// The phrases in a text, as whole words.
fn stumbled_over(text: &str) -> impl Iterator<Item = String> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    PHRASES.iter().filter_map(move |(phrase, better)| {
        let is_there = text.match_indices(phrase).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + phrase.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        });
        is_there.then(|| format!("'{phrase}'; better: {better}"))
    })
}

/// The lines of a script or of the Makefile that print something, or that `make help` shows.
fn printing(text: &str) -> impl Iterator<Item = (usize, String)> {
    const SIGNS: [&str; 6] = ["echo ", "say ", "print(", "## ", "section,", "help="];
    let prints = |line: &str| SIGNS.iter().any(|sign| line.contains(sign));
    let printed = numbered(text).filter(move |(_, line)| prints(line));
    printed.map(|(number, line)| (number, line.to_owned()))
}

/// The lines of a text, counted from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

/// What users see of a file: literals of sources, all of a header of C, what scripts print.
fn shown(path: &Path, text: &str) -> Vec<(usize, String)> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    match path.extension().and_then(|end| end.to_str()) {
        Some("rs" | "hpp" | "c" | "cpp") => literals(text),
        Some("h") => numbered(text)
            .map(|(number, line)| (number, line.to_owned()))
            .collect(),
        _ => printing(text).collect(),
    }
}

#[test]
fn no_text_that_users_see_has_a_phrase_over_which_readers_stumble() {
    let mut paths = vec![root().join("Makefile")];
    for folder in ["crates", "src", "tool/src", "include/umbo", "adapters"] {
        super::rules::sources(&root().join(folder), &mut paths);
    }
    let scripts = fs::read_dir(root().join("scripts")).unwrap();
    paths.extend(scripts.map(|entry| entry.unwrap().path()));
    paths.retain(|path| path.is_file() && !is_of_tests(path.strip_prefix(root()).unwrap()));
    let mut found = Vec::new();
    let mut count = 0;
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (line, text) in shown(&path, &text) {
            let path = path.display();
            found.extend(stumbled_over(&text).map(|it| format!("{path}:{line}: {it}: {text}")));
            count += 1;
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(count > 2500, "{count}");
}

#[test]
fn literals_are_found_with_their_lines() {
    let text = "let a = '\"'; // \"no\"\nf(\"one \\\n   two\\\"\", r#\"raw \" one\"#);\n\
                /* \"no\" */\n\
                #[expect(x, reason = \"no\")]\nfn g<'a>() { \"last\" }";
    let found = [(2, "one two\\\""), (3, "raw \" one"), (6, "last")];
    assert_eq!(
        literals(text),
        found.map(|(line, text)| (line, text.to_owned()))
    );
}

#[test]
fn phrases_are_whole_words() {
    assert_eq!(stumbled_over("the folder beside it").count(), 1);
    assert_eq!(stumbled_over("for every firefighter").count(), 0);
}
