//! Comments of the sources are sentences that a reader understands at once: see
//! "English" in CONTRIBUTING.md.

use std::fs;
use std::path::{Path, PathBuf};

/// Words with which no comment begins that says what an item is: a noun says it.
const OPENERS: [&str; 8] = [
    "What", "Lets", "Those", "Who", "So", "Which", "Where", "When",
];

/// Phrases that stand in no comment, no message and no page.
const PHRASES: [&str; 22] = [
    "whose they are",
    "whose it is",
    "those that there are",
    "one that there is not",
    "thing of no kind",
    "somebody else keeps",
    "does besides",
    "the middle one",
    // Except for.
    "but for",
    // It continues, or is resumed.
    "go on with",
    "go on from",
    "goes on",
    "going on from",
    "cannot go on",
    // Alternately.
    "in turns",
    "In turns",
    // After this many.
    "after so many",
    "After so many",
    "due so many",
    // Multiplied by, returns, counts as none.
    "multiplied with",
    "answers UMBO",
    "as good as none",
];

/// Phrases that stand on no page that users read. Sources may have them.
const ON_PAGES: [&str; 27] = [
    // Bit-identical.
    "same bits",
    "the bits of",
    // Compared with.
    "beside LibTorch",
    "beside torch",
    "beside PyTorch",
    "beside Keras",
    "beside the engine",
    "beside a loop",
    // Past its end.
    "behind its end",
    "behind the end",
    // After.
    "behind the other",
    "behind the others",
    "behind them",
    // It costs more, or is up to you.
    "dearer",
    "you answer",
    // It deadlocks, or has no limit.
    " for ever",
    "in a circle",
    "of use for",
    "no lead over",
    "somebody",
    "nobody stopped",
    "figures here of days",
    "in any case",
    "never was a",
    // Even if, per second.
    "also if",
    "also where",
    "samples a second",
];

/// Verbs behind which "no" and a noun deny what something is: it is not a row.
const DENYING: [&str; 4] = [" is no ", " are no ", " was no ", " were no "];

/// Words around such a "no" that is English: there is no row, it is no longer read.
const BEFORE_NO: &str = "there";
/// The last is the end of a line.
const AFTER_NO: [&str; 5] = ["longer", "more", "less", "later", ""];

/// The most words between "another" and the "than" that belongs to it.
const MOST_BETWEEN: usize = 4;

/// Adds the sources in Rust in `folder` and in the folders below it.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    super::rules::sources(folder, found);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
}

/// The text of a line that is a comment of an item or of a file.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("/// ")
        .or_else(|| line.strip_prefix("//! "))
}

/// Whether a phrase is in a line, as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    line.match_indices(phrase).any(|(at, _)| {
        let after = line[at + phrase.len()..].chars().next();
        !after.is_some_and(char::is_alphabetic)
    })
}

/// The verb and "no" that deny what something is, where "not a" is to stand. `before`: the line
/// above, whose last word may be the one before the verb.
fn denied(before: &str, line: &str) -> Option<&'static str> {
    let before = before.trim_end_matches(['\\', ' ']);
    let line = line.trim_start_matches(['/', '!', '*', ' ']);
    let text = format!("{before} {line}");
    DENYING.into_iter().find(|verb| {
        text.match_indices(*verb).any(|(at, _)| {
            // Those of the line above were found there.
            let is_here = at + verb.len() > before.len() + 1;
            let word_before = text[..at].split_whitespace().next_back();
            let word_after = text[at + verb.len()..]
                .split(|c: char| !c.is_alphanumeric())
                .next();
            let before = word_before.unwrap_or_default().to_lowercase();
            is_here
                && !before.ends_with(BEFORE_NO)
                && !AFTER_NO.contains(&word_after.unwrap_or_default())
        })
    })
}

/// Whether a line says "another type than", where "a type other than" is English. `before`: the
/// line above, on which the phrase may begin.
fn compares_another(before: &str, line: &str) -> bool {
    let before = before.trim_end_matches(['\\', ' ']);
    let line = line.trim_start_matches(['/', '!', '*', ' ']);
    let words: Vec<&str> = before.split_whitespace().collect();
    let above = words.len();
    let words: Vec<&str> = words.into_iter().chain(line.split_whitespace()).collect();
    let is_another = |word: &&str| {
        word.trim_start_matches(['"', '(', '`'])
            .eq_ignore_ascii_case("another")
    };
    let ends = |word: &&str| word.ends_with(['.', ',', ';', ':']) || *word == "other";
    (above..words.len())
        .filter(|&at| words[at] == "than")
        .any(|than| {
            let between = words[..than].iter().rev().take(MOST_BETWEEN);
            let mut between = between.take_while(|word| !ends(word));
            between.any(is_another)
        })
}

/// The mistakes of a source or a page, each with the number of its line.
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
        for phrase in PHRASES.iter().filter(|phrase| has_phrase(line, phrase)) {
            found.push((number + 1, format!("'{phrase}'")));
        }
        if let Some(verb) = denied(before, line) {
            found.push((number + 1, format!("'{verb}': 'not a' is English")));
        }
        if compares_another(before, line) {
            found.push((
                number + 1,
                "'another … than': 'a … other than' is English".to_owned(),
            ));
        }
        before = line;
    }
    found
}

#[test]
fn comments_begin_with_nouns_and_banned_phrases_are_not_used() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut paths = super::documents();
    paths.extend(["CHANGELOG.md", "c_examples/README.md"].map(|page| root.join(page)));
    for folder in [
        "crates",
        "macros",
        "src",
        "tool",
        "c_examples",
        "include/umbo",
    ] {
        super::rules::sources(&root.join(folder), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root).unwrap_or(&path).display();
        let lines = mistakes(&text).into_iter();
        found.extend(lines.map(|(number, mistake)| format!("{path}:{number}: {mistake}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn pages_of_users_have_no_phrase_over_which_readers_stumble() {
    let mut found = Vec::new();
    for page in super::figures::of_users() {
        let text = fs::read_to_string(&page).unwrap();
        for (number, line) in text.lines().enumerate() {
            let phrases = ON_PAGES.iter().filter(|phrase| has_phrase(line, phrase));
            let page = page.display();
            found.extend(phrases.map(|phrase| format!("{page}:{}: '{phrase}'", number + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn mistakes_are_found_in_the_first_line_of_a_comment() {
    let text = "/// What it is.\n/// What more.\nstruct A;\n// whose they are\n/// A noun.\n";
    let lines: Vec<_> = mistakes(text).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 4]);
}

#[test]
fn another_is_not_compared() {
    for wrong in [
        "/// Another type than the elements'",
        "of another\n/// dtype than the elements",
        "made for another \\\n strategy than that",
    ] {
        assert_eq!(mistakes(wrong).len(), 1, "{wrong}");
    }
    for right in [
        "/// a type other than that",
        "another thread holds it, rather than this",
        "another thread, longer than this",
    ] {
        assert!(mistakes(right).is_empty(), "{right}");
    }
}

#[test]
fn a_noun_is_not_denied_by_no() {
    for wrong in [
        "/// an index that is no row",
        "These\n/// are no means: NOT_FOUND",
    ] {
        assert_eq!(mistakes(wrong).len(), 1, "{wrong}");
    }
    for right in [
        "there is no row",
        "/// there\n/// is no such device",
        "that is no longer there",
        "it is not a row",
    ] {
        assert!(mistakes(right).is_empty(), "{right}");
    }
}
