//! What the documents name must be there, and the map of the modules is what the sources import.

mod architecture;
mod english;
mod figures;
mod formats;
mod hazards;
mod measured;
mod messages;
mod names;
mod paths;
mod reference;
mod rules;
mod shown_programs;
mod trainer_errors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn documents() -> Vec<PathBuf> {
    let files_of = |folder| fs::read_dir(root().join(folder)).unwrap();
    let entries = ["docs", "docs/internals"].into_iter().flat_map(files_of);
    let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    all.extend(["README.md", "CONTRIBUTING.md", "tests/README.md"].map(|name| root().join(name)));
    all.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    all
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_name_of_the_api_is_in_a_header() {
    let files_of = |folder| fs::read_dir(root().join(folder)).unwrap();
    let folders = ["include/umbo", "include/umbo/cpp", "adapters/mpi"];
    let entries = folders.into_iter().flat_map(files_of);
    let headers: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let is_header = |path: &&PathBuf| {
        path.extension()
            .is_some_and(|end| end == "h" || end == "hpp")
    };
    let headers = headers.iter().filter(is_header);
    let headers: String = headers
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let known: BTreeSet<&str> = words(&headers).collect();
    // CMake's options and variables, and patterns such as UMBO_X_INIT, are not the header's.
    let elsewhere = |name: &str| {
        [
            "UMBO_BUILD_",
            "UMBO_INSTALL",
            "UMBO_SETUP",
            "UMBO_RUST",
            "UMBO_CARGO",
            "UMBO_FEATURES",
            "UMBO_OLDEST_GLIBC",
            "UMBO_USE_",
            "UMBO_STRIP",
            "UMBO_CASES",
            "UMBO_ARCHIVE",
            "umbo_DIR",
            "UMBO_SOURCES",
            // A version of symbols.
            "UMBO_0",
            // The environment.
            "UMBO_INSTRUCTION_SET",
            "UMBO_NO_SKIPS",
        ]
        .iter()
        .any(|start| name.starts_with(start))
            || name.starts_with("umbo_x")
            || name.starts_with("UMBO_X")
    };
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let names = words(&text).filter(|word| {
            (word.starts_with("umbo_") || word.starts_with("UMBO_")) && !elsewhere(word)
        });
        // UMBO_OPTIONS takes the names of structs without their ends.
        let is_known =
            |name: &str| known.contains(name) || known.contains(&*format!("{name}_options"));
        let missing: BTreeSet<_> = names.filter(|name| !is_known(name)).collect();
        assert!(
            missing.is_empty(),
            "{}: in no header: {missing:?}",
            document.display()
        );
    }
}

/// A document without its blocks of code, in which `[&](` begins a function.
fn prose(document: &Path) -> String {
    let text = fs::read_to_string(document).unwrap();
    let parts = text.split("\n```").step_by(2);
    parts.collect()
}

#[test]
fn every_link_leads_to_a_file() {
    for document in documents() {
        let text = prose(&document);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            if !target.contains("://") && !target.starts_with('#') {
                let file = document
                    .parent()
                    .unwrap()
                    .join(target.split('#').next().unwrap());
                assert!(file.exists(), "{}: no {target}", document.display());
            }
        }
    }
}

/// What a heading is called in links: lower case, without marks, blanks as hyphens.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_into_a_document_leads_to_a_heading() {
    let mut links = 0;
    for document in documents() {
        let text = prose(&document);
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let Some((file, wanted)) = target.split_once('#') else {
                continue;
            };
            if target.contains("://") {
                continue;
            }
            let of_pages = document.parent() == Some(&root().join("docs"));
            // Doxygen finds the headings of a page by its name only.
            assert!(
                !of_pages || !file.is_empty(),
                "{}: name the file of {target}",
                document.display()
            );
            let file = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            let prose = prose(&file);
            let found = prose
                .lines()
                .filter(|line| line.starts_with('#'))
                .any(|line| anchor(line) == wanted);
            assert!(found, "{}: no heading for {target}", document.display());
            links += 1;
        }
    }
    assert!(links > 5, "{links}");
}

/// Pictures that nobody shows are not drawn, and those that the script draws are there.
#[test]
fn every_picture_is_in_a_document() {
    let documents: String = documents()
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let folder = root().join("docs/pictures");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            documents.contains(&format!("pictures/{name})")),
            "no document shows {name}"
        );
        names.insert(name);
    }
    let script = fs::read_to_string(root().join("scripts/pictures.sh")).unwrap();
    let drawn: BTreeSet<&str> = script
        .split("$pictures/")
        .skip(1)
        .filter_map(|rest| rest.split([' ', '\n', ';', '"']).next())
        .collect();
    assert!(drawn.len() > 3, "{drawn:?}");
    for name in drawn {
        assert!(
            names.contains(name),
            "scripts/pictures.sh draws {name}, which is not there"
        );
    }
}

/// The commands of the Makefile that documents name.
#[test]
fn every_command_of_make_is_in_the_makefile() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .filter(|target| !target.contains(|c: char| c.is_whitespace() || c == '.'))
        .collect();
    let mut named = 0;
    for document in documents()
        .into_iter()
        .chain([root().join("CONTRIBUTING.md")])
    {
        let text = fs::read_to_string(&document).unwrap();
        for rest in text.split("`make ").skip(1) {
            let target = rest
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .next()
                .unwrap();
            assert!(
                targets.contains(target),
                "{}: no make {target}",
                document.display()
            );
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

/// The text of all sources below a folder, with strings that go over several lines in one.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text += &fs::read_to_string(&path).unwrap();
        }
    }
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

#[test]
fn the_messages_of_the_catalogue_are_those_of_the_sources() {
    let sources = sources(&root().join("src")) + &sources(&root().join("crates"));
    let catalogue = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let rows = catalogue
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<&str> = rows.map(|row| row.split("` |").next().unwrap()).collect();
    assert!(messages.len() > 25, "{messages:?}");
    for message in messages {
        // What differs from case to case stands in braces in the sources.
        for part in message
            .split('…')
            .map(str::trim)
            .filter(|part| part.len() > 3)
        {
            assert!(
                sources.contains(part),
                "no '{part}' in the sources, of: {message}"
            );
        }
    }
}

/// What the table of crossings says covers them.
#[test]
fn the_tests_of_the_crossings_are_there() {
    let text = fs::read_to_string(root().join("docs/internals/reliability.md")).unwrap();
    let (_, part) = text.split_once("## What the newest features meet").unwrap();
    let (part, _) = part.split_once("\n## ").unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    let tests = sources(&root().join("tests"));
    let mut named = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in cell.split('`').skip(1).step_by(2) {
            // Those that CMake names are programs.
            let is_there = match name.split_once('.') {
                Some((_, "rs")) => root().join("tests").join(name).exists(),
                Some((folder, _)) => ["c", "engines", "faults", "ranks"].contains(&folder),
                None => tests.contains(&format!("fn {name}(")),
            };
            assert!(is_there, "no test {name}, of: {row}");
            named += 1;
        }
    }
    assert!(named > 30, "{named}");
}

/// A function of C has the same name in C++, after its noun, or the table of names has it.
#[test]
fn every_name_that_differs_in_cpp_is_in_the_table() {
    let page = fs::read_to_string(root().join("docs/cpp.md")).unwrap();
    let (_, table) = page.split_once("| C | C++").unwrap();
    let in_table: BTreeSet<&str> = words(table).collect();
    let mut cpp = String::new();
    for entry in fs::read_dir(root().join("include/umbo/cpp")).unwrap() {
        cpp += &fs::read_to_string(entry.unwrap().path()).unwrap();
    }
    let is_in_cpp = |name: &str| {
        [' ', '&', '*', '~']
            .iter()
            .any(|before| cpp.contains(&format!("{before}{name}(")))
    };
    let elsewhere = fs::read_to_string(root().join("include/umbo/tensorflow.h")).unwrap();
    let elsewhere: BTreeSet<&str> = words(&elsewhere).collect();
    let lists = ["symbols.txt", "experimental.txt"].map(|name| root().join("tests/abi").join(name));
    let symbols: String = lists.map(|path| fs::read_to_string(path).unwrap()).concat();
    let mut same = 0;
    for name in words(&symbols).filter(|name| name.starts_with("umbo_")) {
        let end = name.rsplit('_').next().unwrap();
        let by_pattern = ["umbo_optimizer_create_", "umbo_checkpoint_add_"]
            .iter()
            .any(|it| name.starts_with(it));
        if in_table.contains(name) || by_pattern || ["retain", "release"].contains(&end) {
            continue;
        }
        // `umbo_x_get_info` is `x::info`.
        let tail = name
            .strip_prefix("umbo_")
            .unwrap()
            .replace("_get_info", "_info");
        let after_noun = tail.match_indices('_').map(|(at, _)| &tail[at + 1..]);
        // Nouns have one word, or two.
        let found = after_noun.take(2).chain([tail.as_str()]).any(is_in_cpp);
        assert!(
            found || elsewhere.contains(name),
            "docs/cpp.md: what is {name} called in C++?"
        );
        same += 1;
    }
    assert!(same > 100, "{same}");
    for name in table
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|name| name.split_once("::"))
    {
        let name = name.1.split('<').next().unwrap();
        assert!(
            is_in_cpp(name) || name == "what",
            "docs/cpp.md: there is no {name}"
        );
    }
}

/// The defaults of all update rules as the macros have them: rule and field, and the number.
fn defaults_of_the_header() -> BTreeMap<(String, String), f64> {
    let header = fs::read_to_string(root().join("include/umbo/optimizer.h")).unwrap();
    let mut defaults = BTreeMap::new();
    for part in header.split("typedef struct umbo_").skip(1) {
        let (name, rest) = part.split_once("_options {").unwrap_or((part, ""));
        let (body, _) = rest.split_once('}').unwrap_or_default();
        let code = body
            .split("*/")
            .map(|piece| piece.split("/*").next().unwrap());
        let code: String = code.collect();
        let fields = code
            .split(';')
            .filter_map(|field| field.split_whitespace().last());
        let fields: Vec<&str> = fields.collect();
        if fields.get(1) != Some(&"learning_rate") {
            continue; // not the options of a rule
        }
        let macro_name = format!("#define umbo_{name}_options_defaults ");
        let (_, values) = header.split_once(&macro_name).unwrap();
        let (values, _) = values.split_once("\n#define").unwrap();
        let values = values.replace("\\\n", "");
        let values: Vec<&str> = values.split(',').collect();
        assert_eq!(values.len(), fields.len(), "{name}");
        for (field, value) in fields.iter().zip(values).skip(1) {
            let key = (name.to_owned(), (*field).to_owned());
            defaults.insert(key, value.trim().parse().unwrap());
        }
    }
    defaults
}

#[test]
fn the_table_of_defaults_is_that_of_the_header() {
    let text = fs::read_to_string(root().join("docs/internals/optimizers.md")).unwrap();
    let (_, table) = text.split_once("| rule | setting | Umbo |").unwrap();
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut said = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [rule, setting, umbo, _, pytorch, reason] = cells[..] else {
            panic!("{row}")
        };
        let key = (rule.to_owned(), setting.to_owned());
        assert!(
            said.insert(key, umbo.parse().unwrap()).is_none(),
            "twice: {row}"
        );
        let differs = pytorch
            .parse::<f64>()
            .is_ok_and(|theirs| Ok(theirs) != umbo.parse());
        assert!(!differs || !reason.is_empty(), "no reason: {row}");
    }
    let known = defaults_of_the_header();
    assert!(known.len() > 30, "{known:?}");
    assert_eq!(said, known);
}

/// The lines of the table of rules, without the indentation.
#[test]
fn the_formulas_are_those_of_the_source() {
    let source =
        fs::read_to_string(root().join("crates/umbo-kernels/src/update/rules.rs")).unwrap();
    let (_, table) = source.split_once("rules! { w g:\n").unwrap();
    let (table, _) = table.split_once("\n}\n").unwrap();
    let text = fs::read_to_string(root().join("docs/internals/optimizers.md")).unwrap();
    let (_, block) = text.split_once("```rust\n").unwrap();
    let (block, _) = block.split_once("\n```\n").unwrap();
    let lines = table.lines().map(|line| line.strip_prefix("    ").unwrap());
    assert_eq!(block.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}
