//! The committed headers are what the source says. `UPDATE_HEADER=1 cargo test --test header`
//! writes them anew. The generator of the C programs over all functions is compiled into this
//! program.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{env, fs};

#[path = "c/generator/cases.rs"]
mod cases;
#[path = "header/generator.rs"]
mod generator;
#[path = "c/generator/header.rs"]
mod header;
#[path = "c/generator/matrix.rs"]
mod matrix;
#[path = "c/generator/number_tables.rs"]
mod number_tables;
#[path = "c/generator/numbers.rs"]
mod numbers;
#[path = "header/rules/mod.rs"]
mod rules;
#[path = "c/generator/sequences.rs"]
mod sequences;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn generated() -> &'static [umbo_headers::HeaderFile] {
    static HEADERS: LazyLock<Vec<umbo_headers::HeaderFile>> = LazyLock::new(|| {
        umbo_headers::generate(root()).unwrap_or_else(|problem| panic!("{problem}"))
    });
    &HEADERS
}

/// The folder of the committed headers. Where they are to be written anew, that is done before the
/// first test reads one of them.
fn committed_headers() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        if env::var_os("UPDATE_HEADER").is_some() {
            umbo_headers::write(root()).unwrap_or_else(|problem| panic!("{problem}"));
        }
        root().join("include/umbo")
    });
    &FOLDER
}

#[test]
fn the_names_of_constants_are_what_the_source_says() {
    committed_headers();
    let committed = fs::read_to_string(umbo_headers::constant_names_file(root()));
    let made = umbo_headers::constant_names(root()).unwrap_or_else(|problem| panic!("{problem}"));
    assert!(
        committed.unwrap_or_default() == made,
        "src/machinery/constant_names.rs: UPDATE_HEADER=1 cargo test --test header writes it anew"
    );
}

#[test]
fn the_committed_headers_are_what_the_source_says() {
    let folder = committed_headers();
    let headers = generated();
    for (name, text) in headers {
        let committed = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            committed == *text,
            "{name} differs from src; UPDATE_HEADER=1 cargo test --test header writes it anew"
        );
    }
    let names = headers.iter().map(|(name, _)| name.clone());
    let names: Vec<_> = names.filter(|name| name.ends_with(".h")).collect();
    assert_eq!(
        umbo_headers::committed(root()).unwrap(),
        names,
        "headers without a skeleton"
    );
}

/// The Rust files below a folder, the generator excepted.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() && path != umbo_headers::skeletons(root()) {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names that a header declares: functions, types, constants.
fn declared(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(|line| {
        let before = |end| line.split(end).next()?.rsplit([' ', '*']).next();
        if line.contains("UMBO_API ") {
            before("(")
        } else if let Some((_, callback)) = line.split_once(" (*") {
            callback
                .split(')')
                .next()
                .filter(|_| line.starts_with("typedef "))
        } else if line.starts_with("} ") || line.starts_with("typedef ") {
            before(";")
        } else if let Some(constant) = line.strip_prefix("  UMBO_") {
            constant
                .contains(" = ")
                .then(|| line.trim_start().split(' ').next())?
        } else {
            line.strip_prefix("#define ")?.split(' ').next()
        }
    })
}

#[test]
fn everything_of_the_c_layer_is_in_one_header() {
    let headers = generated();
    let names: Vec<(&str, &str)> = headers
        .iter()
        .flat_map(|(header, text)| declared(text).map(move |name| (header.as_str(), name)))
        .collect();
    let mut paths = Vec::new();
    sources(&root().join("src"), &mut paths);
    let mut seen = 0;
    for path in paths {
        let source = fs::read_to_string(&path).expect("the file can be read");
        for start in [
            "\npub fn ",
            "extern \"C\" fn ",
            "\npub type ",
            "\npub struct ",
            "\npub const ",
        ] {
            for rest in source.split(start).skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                let name = &rest[..end.expect("more follows")];
                if !name.starts_with("umbo_") && !name.starts_with("UMBO_") {
                    continue;
                }
                let places: Vec<_> = names
                    .iter()
                    .filter(|(_, enumeration)| *enumeration == name)
                    .map(|(header, _)| header)
                    .collect();
                assert_eq!(
                    places.len(),
                    1,
                    "{name} of {} is in {places:?}",
                    path.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 400, "only {seen} declarations were found");
}

#[test]
fn no_line_is_too_long_and_no_prototype_says_struct() {
    for (header, text) in generated() {
        for (number, line) in text.lines().enumerate() {
            assert!(
                line.chars().count() <= 100,
                "{header}:{}: {line}",
                number + 1
            );
            let definition = line.starts_with("typedef struct ") || line.starts_with([' ', '/']);
            // Those of others, which their own header may define too, have no other name.
            let without_dlpack = line.replace("struct DLManagedTensor", "");
            let cpp = header.ends_with(".hpp");
            assert!(
                cpp || definition || !without_dlpack.contains("struct "),
                "{header}:{}: {line}",
                number + 1
            );
        }
    }
}

/// What belongs together stands in one order: how many before the array; the function, what it is
/// given, and what releases that; then options, and what the call gives.
#[test]
fn arguments_come_in_one_order() {
    let mut seen = 0;
    for (_, text) in generated() {
        for prototype in text.split("UMBO_API umbo_status ").skip(1) {
            let (function, rest) = prototype.split_once('(').expect("a prototype");
            let (list, _) = rest.split_once(");").expect("a prototype");
            let parameters: Vec<String> = list
                .split(',')
                .map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
            let name = |parameter: &String| parameter.rsplit([' ', '*']).next().map(str::to_owned);
            let names: Vec<String> = parameters.iter().filter_map(name).collect();
            let place = |wanted: &str| names.iter().position(|name| name == wanted);
            if let Some(destroy) = place("destroy").filter(|_| function != "umbo_set_last_error") {
                assert_eq!(names[destroy - 1], "user_data", "{function}");
                seen += 1;
            }
            if let (Some(options), Some(user_data)) = (place("options"), place("user_data")) {
                assert!(
                    options > user_data,
                    "{function}: options stand before the user data"
                );
                seen += 1;
            }
            let counts = ["int64_t count", "int64_t capacity"];
            let counts = parameters
                .iter()
                .position(|one| counts.contains(&one.as_str()));
            if let Some(count) = counts {
                let before = &parameters[..count];
                assert!(
                    !before.iter().any(|one| one.contains("*const *")),
                    "{function}: an array"
                );
                let after = parameters.get(count + 1);
                let is_array = |one: &&String| one.contains('*') && *one != "int64_t *count";
                let fits = names[count] == "count" || after.filter(is_array).is_some();
                assert!(fits, "{function}: no array behind its capacity");
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "only {seen} functions have such arguments");
}

#[test]
fn every_status_must_be_looked_at_but_the_one_that_was_given() {
    let headers = generated();
    let lines = headers.iter().flat_map(|(_, text)| text.lines());
    let of_status = lines.filter(|line| line.contains("UMBO_API umbo_status "));
    let ignorable: Vec<_> = of_status
        .filter(|line| !line.starts_with("UMBO_MUST_USE "))
        .flat_map(declared)
        .collect();
    assert_eq!(ignorable, ["umbo_set_last_error"]);
}

/// What the generator makes of one source file and one skeleton.
fn made_of(name: &str, source: &str, skeleton: &str) -> Result<String, String> {
    let root = env::temp_dir().join(format!("umbo-header-{}-{name}", std::process::id()));
    let folder = umbo_headers::skeletons(&root);
    fs::create_dir_all(&folder).expect("the temporary folder can be written");
    fs::create_dir_all(root.join("src")).expect("the temporary folder can be written");
    fs::write(root.join("src/thing.rs"), source).expect("the source can be written");
    fs::write(folder.join("thing.h.in"), skeleton).expect("the skeleton can be written");
    let made = umbo_headers::generate(&root);
    fs::remove_dir_all(&root).expect("the temporary folder can be removed");
    Ok(made?.remove(0).1)
}

const THING: &str = r#"
/// How.
pub type umbo_mode = i32;
/// Well.
pub const UMBO_MODE_WELL: umbo_mode = 1;
/// A limit.
pub const UMBO_LEAST: i32 = -1;
/// A thing.
pub struct umbo_thing {
    _opaque: [u8; 0],
}
/// Called back.
pub type umbo_thing_fn = Option<unsafe extern "C" fn(thing: *mut umbo_thing)>;
/// Options.
#[c_struct(rate = 0.5, wait = UMBO_LEAST as f64, largest = 1 << 30, most = 4_000)]
pub struct umbo_thing_options {
    pub mode: umbo_mode,
    pub rate: f64,
    pub wait: f64,
    pub largest: i64,
    pub most: i64,
    pub name: *const c_char,
    pub function: umbo_thing_fn,
    pub reserved: [u64; 2],
}
/// Makes a thing, and says so in a sentence that is long enough to be broken in the list, which it
/// is. More.
#[c_call(out(thing), options(options))]
pub fn umbo_thing_create(
    options: *const umbo_thing_options,
    others: *const *const umbo_other,
    thing: *mut *mut umbo_thing,
) {
}
/// Releases it.
#[c_call(quietly)]
pub fn umbo_thing_release(thing: *const umbo_thing) {}
/// Names it.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_thing_name() -> *const c_char {}
"#;

#[test]
fn a_header_is_its_skeleton_and_what_its_files_declare() {
    let skeleton = "\n{{declarations thing.rs}}\n";
    let made = made_of("whole", THING, skeleton).expect("it can be made");
    let expected = r#"/* Generated from src; do not edit. */

/** A limit. */
#define UMBO_LEAST (-1)

/** How. */
typedef enum umbo_mode UMBO_INT32 {
  /** Well. */
  UMBO_MODE_WELL = 1
} umbo_mode;

/** A thing. */
typedef struct umbo_thing umbo_thing;

/** Called back. */
typedef void (*umbo_thing_fn)(umbo_thing *thing);

/** Options. */
typedef struct umbo_thing_options {
  size_t struct_size;
  umbo_mode mode;
  double rate;
  double wait;
  int64_t largest;
  int64_t most;
  const char *name;
  umbo_thing_fn function;
  uint64_t reserved[2];
} umbo_thing_options;

#define umbo_thing_options_defaults \
  UMBO_STRUCT_SIZE(umbo_thing_options), UMBO_ENUM_VALUE(umbo_mode, 0), 0.5, UMBO_LEAST, 1 << 30, \
    4000, NULL, NULL, { 0, 0 }
#define UMBO_THING_OPTIONS_INIT { umbo_thing_options_defaults }

/**
 * Makes a thing, and says so in a sentence that is long enough to be broken in the list, which it
 * is. More.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_thing_create(
    const umbo_thing_options *options, const umbo_other *const *others, umbo_thing **thing);

/** Releases it. */
UMBO_API void umbo_thing_release(const umbo_thing *thing);

/** Names it. */
UMBO_API const char *umbo_thing_name(void);
"#;
    assert_eq!(made, expected);
}

#[test]
fn a_field_that_is_appended_is_in_the_macro_and_in_the_struct_of_cpp() {
    let source = r#"
#[c_struct(rate = 0.5, added = 2.5)]
pub struct umbo_thing_options {
    pub rate: f64,
    pub exact: i32,
    pub mode: umbo_mode,
    pub added: f64,
    pub name: *const c_char,
}
/// How.
pub type umbo_mode = i32;
/// Well.
pub const UMBO_MODE_WELL: umbo_mode = 0;
"#;
    let made = made_of("appended", source, "{{declarations thing.rs}}\n").expect("it can be made");
    let macro_of_c = " UMBO_STRUCT_SIZE(umbo_thing_options), 0.5, 0, UMBO_MODE_WELL, 2.5, NULL";
    assert!(made.contains(macro_of_c), "{made}");
    let names = ["options", "conversion", "reading"];
    let skeleton = names
        .map(|name| format!("{{{{{name} umbo_thing_options}}}}\n"))
        .concat();
    let made = made_of("cpp", source, &skeleton).expect("it can be made");
    let expected = r#"/* Generated from src; do not edit. */
struct thing_options {
    double rate = 0.5;
    bool exact = false;
    umbo::mode mode = umbo::mode{UMBO_MODE_WELL};
    double added = 2.5;
    std::string name = {};
};
inline umbo_thing_options raw_options(const thing_options &how) noexcept {
    umbo_thing_options raw = UMBO_THING_OPTIONS_INIT;
    raw.rate = how.rate;
    raw.exact = how.exact ? 1 : 0;
    raw.mode = to_c(how.mode);
    raw.added = how.added;
    raw.name = how.name.c_str();
    return raw;
}
inline thing_options from_c(const umbo_thing_options &raw) {
    thing_options own;
    own.rate = raw.rate;
    own.exact = raw.exact != 0;
    own.mode = umbo::mode{raw.mode};
    own.added = raw.added;
    own.name = raw.name == nullptr ? "" : raw.name;
    return own;
}
"#;
    assert_eq!(made, expected);
}

#[test]
fn a_struct_that_the_library_begins_has_no_macro() {
    let source = r#"
/// A part.
#[repr(C)]
pub struct umbo_part {
    pub struct_size: usize,
    pub count: i64,
}
"#;
    let made = made_of("part", source, "{{declarations thing.rs}}\n").expect("it can be made");
    let expected = r#"/* Generated from src; do not edit. */
/** A part. */
typedef struct umbo_part {
  size_t struct_size;
  int64_t count;
} umbo_part;
"#;
    assert_eq!(made, expected);
}

#[test]
fn the_generator_refuses_what_it_does_not_understand() {
    let refused = |name: &str, source: &str, skeleton: &str, words: &str| {
        let problem = made_of(name, source, skeleton).expect_err(name);
        assert!(
            problem.starts_with("thing.h.in: ") && problem.contains(words),
            "{problem}"
        );
    };
    let all = "{{declarations thing.rs}}\n";
    refused("file", THING, "{{declarations other.rs}}\n", "other.rs");
    refused(
        "directive",
        THING,
        "{{declaration thing.rs}}\n",
        "is not known",
    );
    refused(
        "function",
        THING,
        "{{function umbo_other}}\n",
        "umbo_other is not there",
    );
    let elsewhere = "pub const UMBO_X: umbo_elsewhere = 1;\n";
    refused(
        "elsewhere",
        elsewhere,
        all,
        "its type umbo_elsewhere is in another file",
    );
    let wide = THING.replace("umbo_mode = i32", "umbo_mode = i64");
    refused(
        "wide",
        &wide,
        all,
        "umbo_mode has constants, but is not an i32",
    );
    let nested = THING.replace("name: *const c_char", "name: umbo_elsewhere");
    refused(
        "nested",
        &nested,
        all,
        "nothing is known to begin 'umbo_elsewhere name' with",
    );
}
