//! The map of the crates, as docs/internals/architecture.md draws and words it, is what their
//! manifests say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What each crate uses, or what stands for that.
type Uses = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The crates that a manifest names as dependencies, of those of the library.
fn used(manifest: &str) -> BTreeSet<String> {
    let text = read(manifest);
    let dependencies = text.split_once("\n[dependencies]\n").unwrap().1;
    let lines = dependencies.split("\n[").next().unwrap().lines();
    let names = lines.filter_map(|line| line.strip_suffix(".workspace = true"));
    names
        .filter(|name| root().join("crates").join(name).is_dir())
        .map(str::to_owned)
        .collect()
}

fn of_the_manifests() -> Uses {
    let mut found = Uses::from([("umbo".to_owned(), used("Cargo.toml"))]);
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let below = used(&format!("crates/{name}/Cargo.toml"));
        found.insert(name, below);
    }
    found
}

/// All that is reached from `from` by one step or more.
fn reached(uses: &Uses, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(name) = open.pop() {
        for next in uses.get(name).into_iter().flatten() {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

fn drawn() -> Uses {
    let picture = read("docs/pictures/architecture.svg");
    let mut arrows = Uses::new();
    for arrow in picture.split("data-from=\"").skip(1) {
        let mut words = arrow.split('"');
        let from = words.next().unwrap();
        let name = words.next().unwrap();
        let to = words.next().unwrap();
        if name == " data-to=" {
            arrows
                .entry(from.to_owned())
                .or_default()
                .insert(to.to_owned());
        }
    }
    arrows
}

#[test]
fn the_picture_shows_each_crate_and_what_it_uses() {
    let uses = of_the_manifests();
    let arrows = drawn();
    assert!(uses.len() > 10, "{uses:?}");
    let picture = read("docs/pictures/architecture.svg");
    for name in uses.keys() {
        assert!(
            picture.contains(&format!(">{name}<")),
            "scripts/crates.py draws {name}"
        );
        let shown = reached(&arrows, name);
        let said = reached(&uses, name);
        assert_eq!(shown, said, "scripts/crates.py draws what {name} uses");
    }
}

#[test]
fn the_architecture_document_names_each_crate() {
    let document = read("docs/internals/architecture.md");
    for name in of_the_manifests().keys() {
        assert!(
            document.contains(&format!("| `{name}` |")),
            "the map has no row of {name}"
        );
    }
}

/// What only code for one operating system has.
const OF_A_SYSTEM: [&str; 6] = [
    "libc::",
    "libloading::os::",
    "std::os::",
    "/proc/",
    "/sys/",
    "target_os",
];

/// The sources below a folder that name something of one operating system, with what they name.
/// Unit tests, which stand at the end of a file, may look at the system that they run on.
fn of_a_system(folder: &Path, seen: &mut usize) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(of_a_system(&path, seen));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            *seen += 1;
            let text = fs::read_to_string(&path).unwrap();
            let library = text.split("\n#[cfg(test)]\nmod ").next().unwrap();
            let names = OF_A_SYSTEM.iter().filter(|name| library.contains(**name));
            found.extend(names.map(|name| format!("{}: {name}", path.display())));
        }
    }
    found
}

#[test]
fn only_umbo_system_knows_the_operating_system() {
    let mut seen = 0;
    let mut found = of_a_system(&root().join("src"), &mut 0);
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let names = of_a_system(&folder.join("src"), &mut seen);
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let uses_libc = manifest.contains("\nlibc.") || manifest.contains("\nlibloading.");
        if folder.ends_with("umbo-system") {
            assert!(names.len() >= OF_A_SYSTEM.len() && uses_libc, "{names:?}");
            continue;
        }
        found.extend(names);
        assert!(!uses_libc, "{}: ask umbo-system", folder.display());
    }
    assert!(seen > 300, "only {seen} files were looked at");
    assert!(
        found.is_empty(),
        "ask umbo-system for what depends on the operating system: {found:#?}"
    );
}

/// Editors, patches and merges leave such files behind.
fn is_left_behind(name: &str) -> bool {
    let ends = [
        ".orig", ".rej", ".bak", "~", ".swp", ".swo", ".tmp", ".patch", ".diff", ".pyc",
    ];
    ends.iter().any(|end| name.ends_with(end)) || name == "core"
}

/// The patches of `c_examples/loops`, each with the program that it changes.
fn is_patch_of_a_loop(file: &Path) -> bool {
    let is_patch = file.extension().is_some_and(|end| end == "diff");
    let is_of_a_program = ["c", "cpp"]
        .iter()
        .any(|end| file.with_extension(end).exists());
    is_patch && is_of_a_program && file.parent().unwrap().ends_with("loops")
}

#[test]
fn nothing_is_left_behind() {
    // What git is told to ignore is not part of the project.
    let ignored = read(".gitignore");
    let ignored: BTreeSet<_> = ignored.lines().map(|line| line.trim_matches('/')).collect();
    let mut folders = vec![root().to_owned()];
    let mut seen = 0;
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            seen += 1;
            if name == ".git" || ignored.contains(&*name) {
                continue;
            } else if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if is_left_behind(&name) && !is_patch_of_a_loop(&entry.path()) {
                found.push(entry.path());
            }
        }
    }
    assert!(seen > 1000, "only {seen} files were looked at");
    assert!(
        found.is_empty(),
        "remove what is no part of the project: {found:?}"
    );
}
