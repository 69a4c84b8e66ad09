//! Figures that stand on two pages are the same there, and the pages that users read are short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{documents, root};

/// The mark before a paragraph or a table whose figures are those of another page's tables.
const MARK: &str = "<!-- figures: ";

/// Figures of users' pages that stand under no mark, the file that decides each, and how it is
/// written there.
const ELSEWHERE: [(&str, &str, &str); 19] = [
    ("0.1", "Cargo.toml", "version = \"0.1.0\""),
    ("0.1.0", "Cargo.toml", "version = \"0.1.0\""),
    ("1.95", "Cargo.toml", "rust-version = \"1.95\""),
    ("3.19", "CMakeLists.txt", "VERSION 3.19"),
    // Engines and peers that tests run.
    (
        "1.13",
        "docs/internals/gpu-results.md",
        "LibTorch 1.13 and 2.15",
    ),
    ("2.15", "scripts/setup.sh", "torch==2.15.0"),
    (
        "2.21.0",
        "docs/internals/one-replica.md",
        "tensorflow-cpu 2.21.0",
    ),
    // How far apart losses may be.
    ("0.1", "benches/adoption/libtorch.py", "apart=0.1"),
    ("0.003", "benches/adoption/libtorch.py", "spread=3e-3"),
    ("0.2", "benches/adoption/libtorch.py", "apart=0.2"),
    // Rates and momentum, which rules have by default.
    ("0.01", "include/umbo/optimizer.h", "0.01"),
    ("0.9", "include/umbo/optimizer.h", "0.9"),
    // GPUs and drivers.
    ("7.0", "scripts/build_ptx.sh", "sm_70"),
    ("7.5", "scripts/assemble_ptx.py", "sm_75"),
    ("9.0", "scripts/assemble_ptx.py", "sm_90"),
    ("11.2", "docs/internals/gpu-results.md", "CUDA 11.2"),
    (
        "2.14",
        "crates/umbo-comm/src/nccl/functions.rs",
        "NCCL 2.14",
    ),
    // Packages.
    ("2.17", "cmake/OldestGlibc.cmake", "2.17"),
    ("2.1", "scripts/wheel.py", "numpy>=2.1"),
];

/// Versions of what others give out, which no file here decides.
const OF_OTHERS: [&str; 4] = ["1.6", "2.0", "2021.19", "4.2"];

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
/// of a table, and a picture nowhere.
fn missing(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut found = Vec::new();
    for part in text.split(MARK).skip(1) {
        let (name, rest) = part.split_once(" -->\n").unwrap();
        let source = fs::read_to_string(page.parent().unwrap().join(name)).unwrap();
        let is_picture = name.ends_with(".svg");
        let rows = source
            .lines()
            .filter(|line| is_picture || line.starts_with('|'));
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

/// A paragraph without what is quoted as code, and without the places that links lead to.
fn without_code(paragraph: &str) -> String {
    let plain: String = paragraph.split('`').step_by(2).collect();
    let mut parts = plain.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + "]" + part.split_once(')').map_or("", |(_, rest)| rest)
    })
}

/// The numbers with a point that stand in a page's text under no mark.
fn unmarked(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_measured = false;
    for paragraph in text.split("\n\n") {
        is_measured |= paragraph.contains("<!-- measured: ");
        let has_day = !super::measured::days(paragraph).is_empty();
        if paragraph.contains(MARK) || (is_measured && has_day) {
            continue;
        }
        let prose = without_code(paragraph);
        let lines = prose.lines();
        // Rows of tables that were measured are where figures come from.
        let lines = lines.filter(|line| !(is_measured && line.starts_with('|')));
        let of_line = |line| {
            let with_point = numbers(line).into_iter().filter(|it| it.contains('.'));
            with_point.map(str::to_owned).collect::<Vec<_>>()
        };
        found.extend(lines.flat_map(of_line));
    }
    found
}

#[test]
fn figures_under_no_mark_are_those_of_the_files_that_decide_them() {
    let mut unknown = Vec::new();
    let known = |it: &str| ELSEWHERE.iter().any(|(figure, ..)| *figure == it);
    for page in of_users() {
        let figures = unmarked(&super::prose(&page)).into_iter();
        let other = figures.filter(|it| !known(it) && !OF_OTHERS.contains(&it.as_str()));
        unknown.extend(other.map(|it| format!("{}: {it}", page.display())));
    }
    assert!(
        unknown.is_empty(),
        "mark where these come from, or name the file in ELSEWHERE: {unknown:?}"
    );
    for (figure, file, written) in ELSEWHERE {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(written), "{figure} is not in {file}");
    }
}

#[test]
fn figures_under_no_mark_are_found() {
    let text = "Rust 1.95 and `0.5`, [1.2](a.md#b-3.4).\n\n<!-- figures: a.md -->\n2.5\n\n\
                <!-- measured: p; src -->\n| 3.5 |\nOf 4.5.\n\nOn 2026-11-24 5.5.";
    let found: Vec<String> = unmarked(text).into_iter().collect();
    assert_eq!(found, ["1.2", "1.95", "4.5"]);
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
