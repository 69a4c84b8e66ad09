//! Names in the sources: variables are called by nouns, and the crates below the C layer name
//! nothing of C.

use std::fs;
use std::path::Path;

use super::english::sources;
use super::root;

/// Words that say nothing about the value of a variable.
const BANNED: [&str; 4] = ["of", "own", "what", "here"];

/// Keywords behind which a variable may be named.
const KEYWORDS: [&str; 10] = [
    "let", "mut", "ref", "for", "in", "match", "if", "return", "move", "else",
];

/// Names in C that are not C's: environment variables.
const ENVIRONMENT: [&str; 7] = [
    "UMBO_CHECK_STEPS",
    "UMBO_INSTRUCTION_SET",
    "UMBO_LOG",
    "UMBO_MPI_LIBRARY",
    "UMBO_NCCL_LIBRARY",
    "UMBO_STRICT",
    "UMBO_TRACE",
];

/// The end of a literal of Rust that begins at the start of `text`, if one begins there.
fn literal(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix('"') {
        return Some(1 + closing_quote(rest, '"'));
    }
    if let Some(rest) = text.strip_prefix('r') {
        let hashes = rest.len() - rest.trim_start_matches('#').len();
        let content = rest[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let length = content.find(&end)? + end.len();
        return Some(1 + hashes + 1 + length);
    }
    let rest = text.strip_prefix('\'')?;
    let first = rest.chars().next()?;
    // Without a second quote it is a lifetime.
    let is_character = first == '\\' || rest[first.len_utf8()..].starts_with('\'');
    is_character.then(|| 1 + closing_quote(rest, '\''))
}

/// The length of `text` up to the quote that is not escaped, and with it.
fn closing_quote(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices() {
        if letter == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    text.len()
}

/// The words, signs and literals of a source outside of comments, each with its line.
fn tokens(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut line = 1;
    while at < text.len() {
        let rest = &text[at..];
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(length) = literal(rest) {
            found.push((line, &rest[..length]));
            length
        } else {
            let word = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            let length = word.max(rest.chars().next().map_or(1, char::len_utf8));
            if !rest[..length].trim().is_empty() {
                found.push((line, &rest[..length]));
            }
            length
        };
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// The lines on which a variable has a banned name, each with the name.
fn banned(text: &str) -> Vec<(usize, &str)> {
    let tokens = tokens(text);
    let token = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.1);
    let is_word = |token: &str| token.starts_with(|first: char| first.is_alphabetic());
    let mut found = Vec::new();
    for (at, &(line, name)) in tokens.iter().enumerate() {
        let before = token(at.checked_sub(1));
        let is_field = before == "." && token(at.checked_sub(2)) != ".";
        let is_path = before == ":" && token(at.checked_sub(2)) == ":"
            || token(Some(at + 1)) == ":" && token(Some(at + 2)) == ":";
        let is_call = matches!(token(Some(at + 1)), "(" | "!") && token(Some(at + 2)) != "=";
        let is_keyword = !is_word(before) || KEYWORDS.contains(&before);
        if BANNED.contains(&name) && !is_field && !is_path && !is_call && is_keyword {
            found.push((line, name));
        }
    }
    found
}

#[test]
fn variables_are_named_by_nouns() {
    let mut paths = Vec::new();
    for folder in ["crates", "macros", "src", "tests", "tool"] {
        sources(&root().join(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root()).unwrap().display();
        let lines = banned(&text).into_iter();
        found.extend(lines.map(|(line, name)| format!("{path}:{line}: '{name}'")));
    }
    assert!(found.is_empty(), "no nouns:\n{}", found.join("\n"));
}

#[test]
fn banned_names_are_found_where_they_are_bound() {
    let text = "fn f(own: &str) {\n  let what = 1; // own\n  g(|of| \"here\");\n  \
                if let Some(here) = x {}\n  a != own\n}\n\
                fn own() { self.of + T::of(1) + r#\"own\"# + 'a' + of(2) }\nstruct A of 3 {}\n";
    let lines: Vec<_> = banned(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5]);
}

/// The names in a text that look like constants of C.
fn constants(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("UMBO_") && !ENVIRONMENT.contains(word))
}

#[test]
fn crates_name_nothing_of_c() {
    let mut paths = Vec::new();
    sources(&root().join("crates"), &mut paths);
    let writes_c = Path::new("crates/umbo-headers");
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root()).unwrap();
        if name.starts_with(writes_c) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", name.display(), number + 1);
            found.extend(constants(line).map(|word| format!("{place}: {word}")));
            if line.contains("\"options.") {
                found.push(format!("{place}: a field of C's options"));
            }
        }
    }
    assert!(found.is_empty(), "the C layer's:\n{}", found.join("\n"));
}
