//! Figures that are older than the code say so where they stand.
//!
//! Before figures with a day stands a mark that names the program which measured them and the
//! files on which they depend: `<!-- measured: make bench-engines; crates include -->`. It holds up
//! to the next mark. If such a file has changed since, the paragraph or the table with the day says
//! "the code changed on" and the day of a change. The day of a release is not of figures.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{documents, root};

const MARK: &str = "<!-- measured: ";

/// The words in front of the day of a change that came after the figures.
const CHANGED: &str = "the code changed on ";

/// The words in front of the day of a release.
const RELEASED: &str = "released on ";

/// The days that a text names, as 2026-11-24.
pub fn days(text: &str) -> BTreeSet<&str> {
    let is_day = |word: &&str| {
        word.len() == 10
            && word.starts_with("20")
            && word.bytes().enumerate().all(|(i, byte)| match i {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
    };
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '-');
    let mut found: BTreeSet<&str> = words.filter(is_day).collect();
    for rest in text.split(RELEASED).skip(1) {
        found.retain(|day| !rest.starts_with(day));
    }
    found
}

/// The part of a page for which a mark holds.
struct Measured<'a> {
    program: &'a str,
    paths: Vec<&'a str>,
    text: &'a str,
}

/// The parts of a page that marks are for, and the text before the first mark.
fn parts(page: &str) -> (Vec<Measured<'_>>, &str) {
    let mut pieces = page.split(MARK);
    let unmarked = pieces.next().unwrap_or_default();
    let marked = pieces.map(|piece| {
        let (mark, text) = piece.split_once(" -->").unwrap();
        let (program, paths) = mark.split_once("; ").unwrap();
        let paths = paths.split_whitespace().collect();
        Measured {
            program,
            paths,
            text,
        }
    });
    (marked.collect(), unmarked)
}

/// The first fault of figures whose code was changed last on the day `changed`.
fn fault(text: &str, changed: &str) -> Option<String> {
    let mut paragraphs = text.split("\n\n");
    paragraphs.find_map(|paragraph| fault_in(paragraph, changed))
}

/// The same of a paragraph or a table.
fn fault_in(paragraph: &str, changed: &str) -> Option<String> {
    let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = text.split(CHANGED).nth(1).and_then(|rest| rest.get(..10));
    let measured = days(&text).into_iter().find(|day| Some(*day) != said)?;
    match said {
        None if measured < changed => Some(format!(
            "figures of {measured} are older than the code; say '{CHANGED}{changed}'"
        )),
        Some(said) if said <= measured => Some(format!(
            "figures of {measured} are not older than the change of {said}"
        )),
        Some(said) if said > changed => Some(format!("there is no change of {said}")),
        _ => None,
    }
}

/// What git says; nothing, where it fails or is not there.
fn git(arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    let output = git.current_dir(root()).args(arguments).output();
    let text = output.map_or(Vec::new(), |output| output.stdout);
    String::from_utf8(text).unwrap().trim().to_owned()
}

/// Whether it is known when each file was changed: an archive of the sources has no history, and
/// one that was cut off shows all older files as changed where it begins.
fn has_history() -> bool {
    let is_whole = git(&["rev-parse", "--is-shallow-repository"]) == "false";
    // An archive may be unpacked in a folder of another history.
    is_whole && last_change(&["Cargo.toml"]).is_some()
}

/// The day of the last change of some files.
fn last_change(paths: &[&str]) -> Option<String> {
    let day = git(&[&["log", "-1", "--format=%cs", "--"], paths].concat());
    (!day.is_empty()).then_some(day)
}

/// The pages that must not name a day elsewhere than under a mark: all but a list of attempts.
fn pages() -> Vec<(String, String)> {
    let mut pages = documents();
    pages.retain(|page| !page.ends_with("reliability.md"));
    let read = |page: &Path| fs::read_to_string(page).unwrap();
    let named = |page: &Path| page.strip_prefix(root()).unwrap().display().to_string();
    pages.iter().map(|page| (named(page), read(page))).collect()
}

#[test]
fn figures_older_than_the_code_say_so() {
    if !has_history() {
        let mut skip = Command::new(root().join("scripts/skip.sh"));
        // No tool that can be installed brings the history back.
        skip.env_remove("UMBO_NO_SKIPS");
        skip.args(["documents.measured", "the sources have no whole history"]);
        assert_eq!(skip.status().unwrap().code(), Some(77));
        return;
    }
    for (name, page) in pages() {
        for part in parts(&page).0 {
            let changed = last_change(&part.paths);
            let changed = changed.unwrap_or_else(|| panic!("{name}: {:?} changed?", part.paths));
            let fault = fault(part.text, &changed);
            assert!(fault.is_none(), "{name}: {}: {fault:?}", part.program);
        }
    }
}

#[test]
fn each_figure_with_a_day_has_a_mark() {
    let mut count = 0;
    for (name, page) in pages() {
        let (marked, unmarked) = parts(&page);
        let without = days(unmarked);
        assert!(without.is_empty(), "{name}: no mark before {without:?}");
        for part in marked {
            assert!(!days(part.text).is_empty(), "{name}: {}", part.program);
            for path in part.paths {
                assert!(root().join(path).exists(), "{name}: no {path}");
            }
            count += 1;
        }
    }
    assert!(count > 8, "{count}");
}

#[test]
fn older_figures_are_found() {
    let old = "On 2026-11-22.";
    assert!(fault(old, "2026-11-24").is_some());
    assert!(fault(old, "2026-11-22").is_none());
    let said = "On 2026-11-22 (the code changed on 2026-11-23).";
    assert!(fault(said, "2026-11-24").is_none());
    assert!(
        fault(
            "On 2026-11-24 (the code changed on 2026-11-23).",
            "2026-11-24"
        )
        .is_some()
    );
    assert!(fault(said, "2026-11-22").is_some());
    assert_eq!(
        days("on 2026-11-24, not 2026-1-24 or 12026-11-24"),
        BTreeSet::from(["2026-11-24"])
    );
    let second = "On 2026-11-22, the code changed on\n2026-11-23.\n\nOn 2026-11-22.";
    assert!(fault(second, "2026-11-24").is_some());
    assert!(days("0.1.0, released on 2026-11-30.").is_empty());
    let (marked, unmarked) = parts("a\n<!-- measured: p; src crates -->\nb");
    assert_eq!((marked[0].text, marked[0].paths.len()), ("\nb", 2));
    assert_eq!(unmarked, "a\n");
}
