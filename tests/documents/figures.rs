//! Figures that stand on two pages are the same there, and the pages that users read are short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{documents, root};

/// The mark before a paragraph or a table whose figures are those of another page's tables.
const MARK: &str = "<!-- figures: ";

/// The most words on the README and the pages of `docs`, without those of `docs/internals` and
/// without blocks of code. Who adds to them takes as much from what is said twice.
const MOST_WORDS: usize = 28_000;

/// All numbers, as 1.05 and 12.
fn numbers(text: &str) -> BTreeSet<&str> {
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let numbers = numbers.map(|number| number.trim_matches('.'));
    numbers.filter(|number| !number.is_empty()).collect()
}

/// The figures of a paragraph or a table: the numbers with a decimal point, and in rows of a table
/// all others, too.
fn figures(text: &str) -> BTreeSet<&str> {
    let of_line = |line| {
        let mut found = numbers(line);
        found.retain(|number| number.contains('.') || line.starts_with('|'));
        found
    };
    text.lines().flat_map(of_line).collect()
}

/// The figures after a mark, up to the next blank line, that the page which it names has in no row
/// of a table.
fn missing(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut found = Vec::new();
    for part in text.split(MARK).skip(1) {
        let (name, rest) = part.split_once(" -->\n").unwrap();
        let source = fs::read_to_string(page.parent().unwrap().join(name)).unwrap();
        let rows = source.lines().filter(|line| line.starts_with('|'));
        let known: BTreeSet<&str> = rows.flat_map(numbers).collect();
        let shown = rest.split("\n\n").next().unwrap();
        let other = figures(shown).into_iter().filter(|it| !known.contains(it));
        found.extend(other.map(|it| format!("{}: {it} is not in {name}", page.display())));
    }
    found
}

#[test]
fn figures_are_those_of_the_tables_that_they_come_from() {
    let found: Vec<String> = documents().iter().flat_map(|page| missing(page)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let texts = documents()
        .into_iter()
        .map(|page| fs::read_to_string(page).unwrap());
    let marks: usize = texts.map(|text| text.matches(MARK).count()).sum();
    assert!(marks >= 3, "{marks}");
}

#[test]
fn numbers_with_a_point_are_figures_and_all_in_a_table() {
    let found = figures("adamw, 16 Mi: 1.05 (0.98 to 1.10), 2026-11-26. At 3.\n| 12 of 64 |");
    assert_eq!(found, BTreeSet::from(["1.05", "0.98", "1.10", "12", "64"]));
}

/// The README and the pages of `docs`.
pub fn of_users() -> Vec<PathBuf> {
    let folder = root().join("docs");
    let mut pages = documents();
    pages.retain(|page| page.parent() == Some(&folder) || page.ends_with("README.md"));
    pages.retain(|page| !page.ends_with("tests/README.md"));
    pages
}

#[test]
fn the_pages_of_users_are_short() {
    let mut words = 0;
    for page in of_users() {
        words += super::prose(&page).split_whitespace().count();
    }
    assert!(
        words <= MOST_WORDS,
        "{words} words; the most are {MOST_WORDS}"
    );
}
