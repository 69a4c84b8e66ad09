//! The committed header is what the source says. `UPDATE_HEADER=1 cargo test --test header` writes
//! it anew.

use std::env;
use std::fs;
use std::path::Path;

use cbindgen::{Builder, Config};

/// The files of the C layer in the header's order, and the title of each one's section.
const SECTIONS: &[(&str, &str)] = &[
    ("object", "handle types"),
    ("callback", "callbacks"),
    ("status", "status and last error"),
    ("library", "library"),
    ("device", "devices"),
    ("tensor", "tensors"),
    ("value", "values"),
    ("indexed_slices", "indexed slices"),
    ("cluster_resolver", "cluster resolvers"),
    ("strategy", "strategies"),
    ("scope", "scopes and contexts"),
    ("run", "run"),
    ("replica_context", "replica context"),
    ("collective", "reduce and gather"),
    ("update", "update"),
    ("extended", "values from functions, destinations, and the like"),
    ("variable", "variables"),
    ("variable_creator", "variable creators"),
    ("scatter", "scatter updates"),
    ("element_spec", "element specs"),
    ("dataset_sources", "sources of datasets"),
    ("dataset_functions", "datasets from functions"),
    ("dataset", "datasets"),
    ("distribution", "distribution of datasets"),
    ("iterator", "iterators"),
    ("gradients", "gradients"),
    ("update_rule", "update rules"),
    ("optimizer", "optimizers"),
    ("equivalence", "equivalence of one replica and many"),
];

const FUNCTION: &str = "extern \"C\" fn ";

/// The names of the functions in a source file, in order.
fn functions(source: &str) -> Vec<&str> {
    let after = source.split(FUNCTION).skip(1);
    after.filter_map(|rest| rest.split('(').next()).collect()
}

fn version_macros() -> String {
    let (major, minor, patch) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    );
    format!(
        "\n/** The version of this header; umbo_version() tells the library's. */\n\
         #define UMBO_VERSION \"{}\"\n\
         #define UMBO_VERSION_MAJOR {major}\n\
         #define UMBO_VERSION_MINOR {minor}\n\
         #define UMBO_VERSION_PATCH {patch}\n\
         #define UMBO_VERSION_NUMBER \\\n  \
         (UMBO_VERSION_MAJOR * 1000000 + UMBO_VERSION_MINOR * 1000 + UMBO_VERSION_PATCH)\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Puts the title of a section before the comment of its first function.
fn with_title(header: String, title: &str, first_function: &str) -> String {
    let call = format!("{first_function}(");
    let mut position = 0;
    let declaration = header.split_inclusive('\n').find_map(|line| {
        let start = position;
        position += line.len();
        (line.contains(&call) && line.starts_with(char::is_alphabetic)).then_some(start)
    });
    let declaration = declaration.unwrap_or_else(|| panic!("{first_function} is not declared"));
    let comment = header[..declaration].rfind("\n/**").expect("each function has a comment");
    let (before, after) = header.split_at(comment);
    let line = "-".repeat(86 - title.len());
    format!("{before}\n/* ---- {title} {line} */\n{after}")
}

fn generate(root: &Path) -> String {
    let mut config = Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml is valid");
    let macros = config.after_includes.take().unwrap_or_default();
    config.after_includes = Some(version_macros() + &macros);
    let mut builder = Builder::new().with_config(config);
    let mut titles = Vec::new();
    for (file, title) in SECTIONS {
        let path = root.join(format!("src/ffi/{file}.rs"));
        let source = fs::read_to_string(&path).expect("the file is there");
        if let Some(first) = functions(&source).first() {
            titles.push((*title, (*first).to_owned()));
        }
        builder = builder.with_src(path);
    }
    let mut header = Vec::new();
    builder.generate().expect("cbindgen understands the source").write(&mut header);
    let header = String::from_utf8(header).expect("the header is text");
    titles.into_iter().fold(header, |header, (title, first)| with_title(header, title, &first))
}

#[test]
fn the_committed_header_is_what_the_source_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("include/umbo/umbo.h");
    let generated = generate(root);
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} differs from src/ffi; UPDATE_HEADER=1 cargo test --test header writes it anew",
        path.display()
    );
}

#[test]
fn every_function_of_the_c_layer_is_in_the_header() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let header = generate(root);
    for entry in fs::read_dir(root.join("src/ffi")).expect("the C layer is there") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("the file can be read");
        for function in functions(&source).into_iter().filter(|name| name.starts_with("umbo_")) {
            assert!(
                header.contains(&format!("{function}(")),
                "{function} of {} is not in the header: add the file to SECTIONS",
                path.display()
            );
        }
    }
}
