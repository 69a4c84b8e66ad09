//! Lists of the update rules are complete, in documents and in sources, and there are no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use umbo_core::optimizer::rules::catalogue;

use super::root;

/// The lists beside the library's own, `optimizer/rules/catalogue`. Most are in other languages.
const LISTS: [&str; 25] = [
    "crates/umbo-headers/templates/options.hpp.in",
    "crates/umbo-kernels/src/cuda/source/rules.cuh",
    "crates/umbo-kernels/src/cuda/source/update.cuh",
    "crates/umbo-kernels/src/update/rules.rs",
    "crates/umbo-optim/src/rules/catalogue.rs",
    "include/umbo/cpp/optimizer.hpp",
    "include/umbo/cpp/options.hpp",
    "include/umbo/optimizer.h",
    "include/umbo/trainer.h",
    "src/nouns/trainer.rs",
    "src/nouns/named_rule.rs",
    "src/nouns/update_rule.rs",
    "src/nouns/update_rule_options.rs",
    "tests/c/test_floating_point.c",
    "tests/c/test_optimizer_settings.c",
    "tests/c/test_readback.c",
    "tests/cpp/test_options.cpp",
    "tests/cpp/test_training.cpp",
    "tests/faults/training.c",
    "tests/hot_loops/hot_loops.c",
    "tests/one_sha/rules_part.h",
    "tests/optimizer/large_gradients.rs",
    "tests/optimizer/plain.rs",
    "tool/src/bench/update.rs",
    "tool/src/bench/workers.rs",
];

/// Files that name some of the rules: the modules, those that update single rows, and those that a
/// peer has.
const PARTS: [&str; 11] = [
    "crates/umbo-optim/src/rules/mod.rs",
    "include/umbo/adapters/torch/optimizer.hpp",
    "tests/engines/test_torch_tutorials.cpp",
    "tests/engines/torch_loops.hpp",
    "tests/judges/keras_optimizers.py",
    "tests/judges/optax_aliases.py",
    "tests/judges/row_changes.py",
    "tests/judges/torch_optimizers.py",
    "tests/judges/trainer.py",
    "tests/optimizer/setup.rs",
    "tool/src/bench/rows.rs",
];

/// A file that names so many rules lists them.
const MANY: usize = 6;

/// The names of the rules, of each of which the list may have several variants.
fn names() -> BTreeSet<String> {
    let rules = catalogue::RULES.into_iter();
    rules
        .map(|named| (named.make)().name().to_owned())
        .collect()
}

/// The names of the rules without a formula for each element.
fn other_names() -> BTreeSet<String> {
    catalogue::other_rules()
        .map(|named| (named.make)().name().to_owned())
        .collect()
}

/// The rules that a text names, in any case and as a part of other names.
fn named(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let words: BTreeSet<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let known = names().into_iter();
    known.filter(|name| words.contains(&**name)).collect()
}

/// The files of sources below a folder.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let endings = ["rs", "c", "h", "cpp", "hpp", "cu", "cuh", "in", "py"];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|end| endings.iter().any(|known| end == *known))
        {
            found.push(path);
        }
    }
}

#[test]
fn each_list_has_all_rules() {
    let all = names();
    assert!(all.len() >= 8, "{all:?}");
    let documents = [
        "docs/concepts.md",
        "docs/cpp.md",
        "docs/internals/optimizers.md",
    ];
    let with_host = [
        "crates/umbo-headers/templates/options.hpp.in",
        "include/umbo/cpp/optimizer.hpp",
        "include/umbo/optimizer.h",
        "tests/c/test_readback.c",
        "tests/cpp/test_options.cpp",
    ];
    for file in with_host.into_iter().chain(documents) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let lower = text.to_lowercase();
        for name in other_names() {
            assert!(lower.contains(&name), "{file} does not name {name}");
        }
    }
    for file in LISTS.into_iter().chain(documents) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let missing: Vec<_> = all.difference(&named(&text)).cloned().collect();
        assert!(missing.is_empty(), "{file} does not name {missing:?}");
    }
}

#[test]
fn nothing_else_lists_the_rules() {
    let mut paths = Vec::new();
    for folder in [
        "benches",
        "c_examples",
        "crates",
        "fuzz",
        "include",
        "src",
        "tests",
        "tool",
    ] {
        sources(&root().join(folder), &mut paths);
    }
    assert!(paths.len() > 500, "{}", paths.len());
    for path in paths {
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
        if LISTS.contains(&file) || PARTS.contains(&file) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let found = named(&text);
        assert!(
            found.len() < MANY,
            "{file} names {found:?}; take the rules from umbo_core::optimizer::rules::catalogue, \
             or add the file to the lists that are checked"
        );
    }
}

#[test]
fn the_readme_says_how_many_rules_there_are() {
    let numbers = [
        "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen",
    ];
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let said = format!(
        "{} update rules",
        numbers[names().len() + other_names().len() - 8]
    );
    assert!(text.contains(&said), "README.md does not say '{said}'");
}

/// The rows of the table say which states a rule keeps, its variants included.
#[test]
fn the_states_are_those_of_the_rules() {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for named in catalogue::RULES.into_iter().chain(catalogue::other_rules()) {
        let rule = (named.make)();
        let slots: Vec<String> = rule
            .slots()
            .iter()
            .map(|slot| slot.name.to_string())
            .collect();
        let most = known.entry(rule.name().to_owned()).or_default();
        if slots.len() > most.len() {
            *most = slots;
        }
    }
    let text = fs::read_to_string(root().join("docs/concepts.md")).unwrap();
    let (_, table) = text.split_once("| rule | states |\n").unwrap();
    let rows = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'));
    let said = rows.map(|row| {
        let (name, states) = row.trim_matches('|').split_once('|').unwrap();
        let states = states.split('"').skip(1).step_by(2);
        (name.trim().to_owned(), states.map(str::to_owned).collect())
    });
    assert_eq!(said.collect::<BTreeMap<String, Vec<String>>>(), known);
}
