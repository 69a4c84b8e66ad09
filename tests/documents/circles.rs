//! Circles of imports between the files of `src`.
//!
//! A file imports another if it names something that is defined there: by `use`, or by a path that begins with `crate`,
//! `super`, `self` or one of its own modules. A name that a file only hands on is followed to where it is defined, so
//! that a `mod.rs` which declares modules and re-exports their names stands for the folder and imports nothing. If it
//! also works with a name that it re-exports, that is an import as any other. What is not seen: methods, which are
//! found by their types; macros that are used by name alone; and unit tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// From each file to those that it imports, with the names.
pub type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A module path such as `["input", "shuffle"]`; the crate's own is empty.
type Module = Vec<String>;

type Sources = BTreeMap<Module, Source>;

/// What an item begins with.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];

struct Source {
    file: String,
    uses: Vec<Use>,
    /// All words of its code but for `use` statements.
    words: BTreeSet<String>,
    /// The items that are defined there.
    items: BTreeSet<String>,
}

/// A path that a file names; what `use` brings in under `name`.
struct Use {
    path: Vec<String>,
    name: Option<String>,
    is_public: bool,
}

/// The code of a file without its comments, its texts and its unit tests.
fn plain(text: &str) -> String {
    let text = text.split("\nmod tests {").next().unwrap();
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(['/', '"', '\'']) {
        plain += &rest[..start];
        let (before, here) = (&plain, &rest[start..]);
        let end = if here.starts_with("//") {
            here.find('\n').unwrap_or(here.len())
        } else if here.starts_with('"') && (before.ends_with('r') || before.ends_with('#')) {
            let hashes = before.len() - before.trim_end_matches('#').len();
            let end = format!("\"{}", "#".repeat(hashes));
            here[1..].find(&end).unwrap() + 1 + end.len()
        } else if let Some(text) = here.strip_prefix('"') {
            let mut is_escaped = false;
            let end = text.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            end.unwrap() + 2
        } else if let Some(character) = here.strip_prefix("'\\") {
            character.find('\'').unwrap() + 3
        } else if here.starts_with('\'') && here.chars().nth(2) == Some('\'') {
            here.char_indices().nth(3).map_or(here.len(), |(at, _)| at)
        } else {
            1
        };
        plain.push(' ');
        rest = &here[end..];
    }
    plain + rest
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reads what follows a `use`, or one path in an expression: `a::b::{c, d as e, f::*}`.
fn read_tree(text: &mut &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let mut path = before.to_vec();
    loop {
        *text = text.trim_start();
        if let Some(rest) = text.strip_prefix('{') {
            *text = rest;
            loop {
                *text = text.trim_start_matches(|c| !is_word(c) && c != '*' && c != '}');
                if text.is_empty() || text.starts_with('}') {
                    *text = text.get(1..).unwrap_or_default();
                    return;
                }
                read_tree(text, &path, found);
            }
        }
        let end = if text.starts_with('*') {
            1
        } else {
            text.find(|c| !is_word(c)).unwrap_or(text.len())
        };
        if end == 0 {
            // `Vec::<T>::new` and the like: the name before is what counts.
            break;
        }
        path.push(text[..end].to_owned());
        *text = &text[end..];
        match text.trim_start().strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if name == "self" && path.len() > 1 {
        path.pop();
        name = path.last().unwrap().clone();
    }
    if let Some(rest) = text.trim_start().strip_prefix("as ") {
        let rest = rest.trim_start();
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        name = rest[..end].to_owned();
        *text = &rest[end..];
    }
    found.push((path, name));
}

/// The paths that a file names, and the rest of its code.
fn take_uses(code: &str) -> (Vec<Use>, String) {
    let (mut uses, mut others) = (Vec::new(), String::new());
    let (mut rest, mut is_public) = (code, false);
    while let Some(start) = rest.find(is_word) {
        let (gap, text) = rest.split_at(start);
        others += gap;
        // `pub(in path)` says who may see an item, and imports nothing.
        if let Some(inside) = text.strip_prefix("in ").filter(|_| others.ends_with("pub(")) {
            rest = inside.split_once(')').map_or("", |(_, behind)| behind);
            continue;
        }
        is_public &= !gap.contains([';', '{', '}']);
        let word = &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())];
        let (mut after, mut paths) = (&text[word.len()..], Vec::new());
        is_public |= word == "pub";
        if word == "use" {
            read_tree(&mut after, &[], &mut paths);
            uses.extend(paths.into_iter().map(|(path, name)| Use {
                path,
                name: Some(name),
                is_public,
            }));
        } else if after.starts_with("::") {
            after = text;
            read_tree(&mut after, &[], &mut paths);
            uses.extend(paths.into_iter().map(|(path, _)| Use {
                path,
                name: None,
                is_public: false,
            }));
            others += &text[..text.len() - after.len()];
        } else {
            others += word;
        }
        rest = after;
    }
    (uses, others + rest)
}

fn read(folder: &Path, module: &Module, sources: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut own = module.clone();
        if path.is_dir() {
            own.push(stem);
            read(&path, &own, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") && stem != "tests" {
            if stem != "mod" && stem != "lib" {
                own.push(stem);
            }
            let (uses, rest) = take_uses(&plain(&fs::read_to_string(&path).unwrap()));
            // `*const T` is no item.
            let rest = rest.replace("*const", "*");
            let words: Vec<&str> = rest.split(|c| !is_word(c)).collect();
            let items = words.windows(2).filter(|pair| ITEMS.contains(&pair[0]));
            let items = items.map(|pair| pair[1].to_owned()).collect();
            let words = words.into_iter().map(str::to_owned).collect();
            let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            let file = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            sources.insert(own, Source { file, uses, words, items });
        }
    }
}

/// The module whose file defines what `path` names in `module`; none if it is of another crate.
fn resolve(sources: &Sources, module: &Module, path: &[String], depth: usize) -> Option<Module> {
    let mut here = module.clone();
    let mut path = path;
    match &*path.first()?.clone() {
        "crate" => here.clear(),
        "self" => {}
        "super" => {
            here.pop();
        }
        first => {
            let child: Module = [&here[..], &[first.to_owned()]].concat();
            if !sources.contains_key(&child) {
                return None;
            }
            here = child;
        }
    }
    path = &path[1..];
    while let Some(name) = path.first() {
        let child: Module = [&here[..], std::slice::from_ref(name)].concat();
        if name == "super" {
            here.pop();
        } else if sources.contains_key(&child) {
            here = child;
        } else {
            if let Some(source) = sources.get(&here)
                && depth < 5
                && !source.items.contains(name)
            {
                for handed_on in &source.uses {
                    let Some(known_as) = &handed_on.name else { continue };
                    if known_as == name {
                        let whole = [&handed_on.path[..], &path[1..]].concat();
                        if let Some(found) = resolve(sources, &here, &whole, depth + 1) {
                            return Some(found);
                        }
                    } else if known_as == "*" && handed_on.is_public {
                        let folder = &handed_on.path[..handed_on.path.len() - 1];
                        let whole = [folder, path].concat();
                        let found = resolve(sources, &here, &whole, depth + 1);
                        if let Some(found) = found
                            && sources[&found].items.contains(name)
                        {
                            return Some(found);
                        }
                    }
                }
            }
            return Some(here);
        }
        path = &path[1..];
    }
    Some(here)
}

/// The paths of all that `named`, a path in the file of `module`, stands for: itself, or, if it ends with `*`, those
/// names that are handed on there and that the file works with.
fn expanded(sources: &Sources, module: &Module, named: &Use) -> Vec<Vec<String>> {
    let Some((_, folder)) = named.path.split_last().filter(|(last, _)| *last == "*") else {
        return vec![named.path.clone()];
    };
    let Some(source) = resolve(sources, module, folder, 0).and_then(|of| sources.get(&of)) else {
        return Vec::new();
    };
    let names = source
        .uses
        .iter()
        .filter(|handed_on| handed_on.is_public)
        .filter_map(|handed_on| handed_on.name.as_ref());
    let names = names.filter(|name| *name != "*" && sources[module].words.contains(*name));
    names
        .map(|name| [folder, std::slice::from_ref(name)].concat())
        .chain([folder.to_vec()])
        .collect()
}

pub fn imports() -> Imports {
    let mut sources = Sources::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), &Module::new(), &mut sources);
    let mut imports = Imports::new();
    for (module, source) in &sources {
        let found = imports.entry(source.file.clone()).or_default();
        for named in &source.uses {
            if named.is_public
                && named.name.as_ref().is_some_and(|name| !source.words.contains(name))
            {
                continue;
            }
            for path in expanded(&sources, module, named) {
                let target = resolve(&sources, module, &path, 0).and_then(|of| sources.get(&of));
                if let Some(target) = target
                    && target.file != source.file
                {
                    let names = found.entry(target.file.clone()).or_default();
                    names.extend(path.last().cloned());
                }
            }
        }
    }
    imports
}

/// The groups of files of which each reaches each other.
pub fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            for next in imports.get(file).into_iter().flat_map(BTreeMap::keys) {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|file| (file.clone(), reached(file))).collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reach {
        if others.contains(file) {
            let circle: BTreeSet<_> = others
                .iter()
                .filter(|other| reach.get(*other).is_some_and(|r| r.contains(file)))
                .cloned()
                .collect();
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}
