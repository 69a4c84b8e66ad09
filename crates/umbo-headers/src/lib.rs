//! Makes the C headers in `include/umbo` from the C layer, for the build script of the package at
//! the top and for the test that compares them with what is committed.
//!
//! Each header has a skeleton, `templates/NAME.h.in`, which a person has written: the
//! introduction, the includes, and where what comes from the sources goes:
//!
//! - `{{declarations FILE}}`: all constants, types and functions of `src/FILE`, except those that
//!   another header takes by name. A header knows types of others by their plain names.
//! - `{{function NAME}}`: one function, which another header would have with its file.
//! - `{{handle NOUN}}`: the inline functions that retain and release handles of this type. What is
//!   special about a release of the last handle follows, up to `{{end}}`.
//! - `{{helpers}}` to `{{end}}`: inline functions that only other inline functions call.
//! - `{{version}}`, `{{version_major}}` and so on: of the package.
//! - `{{options NAME}}`, in the skeleton `FILE.hpp.in` of a file of `include/umbo/cpp`: the C++
//!   struct of a C struct; `{{conversion NAME}}` and `{{reading NAME}}`: the functions that make
//!   the one of the other; `{{enum NAME OWN START}}`: both of an enum, `START` being what its
//!   constants begin with.
//!
//! Bodies of inline functions of more than one line go to `inline/NAME.h`, which the header
//! includes at its end.
//!
//! A struct with `#[c_struct]`, which the caller begins, gets a macro `UMBO_X_INIT`, with the
//! defaults that the attribute says and zeros for the rest. Of `umbo_x_options` the values without
//! the braces are a macro of their own, `umbo_x_options_defaults`, for `UMBO_OPTIONS(umbo_x, ...)`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

mod cpp;
mod inline;
mod items;

use items::{Declaration, DeclarationKind, Field, items};

/// The largest width of a line of a header.
const WIDTH: usize = 100;

/// The field that options and information begin with.
const SIZE: &str = "size_t struct_size";

/// A header: its path below `include/umbo`, such as `tensor.h`, and its text.
pub type HeaderFile = (String, String);

/// Where the skeletons are.
pub fn skeletons(root: &Path) -> PathBuf {
    root.join("crates/umbo-headers/templates")
}

/// All headers, in the order of their names.
pub fn generate(root: &Path) -> Result<Vec<HeaderFile>, String> {
    let folder = skeletons(root);
    let sources = sources(&root.join("src"))?;
    let zeros = zeros(&sources)?;
    let mut skeletons = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let file = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(name) = file.strip_suffix(".in") {
            skeletons.push((name.to_owned(), read(&path)?));
        }
    }
    let lines = skeletons.iter().flat_map(|(_, skeleton)| skeleton.lines());
    let taken: Vec<&str> = lines
        .filter_map(|line| directive(line, "function "))
        .collect();
    let mut headers = Vec::new();
    for (name, skeleton) in &skeletons {
        let folder = if name.ends_with(".hpp") { "cpp/" } else { "" };
        let mut text = header(skeleton, &sources, &zeros, &taken)
            .map_err(|problem| format!("{name}.in: {problem}"))?;
        if name.ends_with(".h") {
            let (declarations, bodies) = inline::split(name, &text);
            text = declarations;
            headers.extend(bodies.map(|bodies| (format!("inline/{name}"), bodies)));
        }
        headers.push((format!("{folder}{name}"), text));
    }
    headers.sort();
    Ok(headers)
}

/// Where the C layer has the names of the constants of its enums, for messages.
pub fn constant_names_file(root: &Path) -> PathBuf {
    root.join("src/machinery/constant_names.rs")
}

/// The file with the names of the constants: all but those that are 0, which every enum may have,
/// and statuses, which are small numbers that an argument may be by mistake. Two that have the same
/// number are an error.
pub fn constant_names(root: &Path) -> Result<String, String> {
    let sources = sources(&root.join("src"))?;
    let mut names = BTreeMap::new();
    for Declaration { name, kind, .. } in sources.values().flatten() {
        let DeclarationKind::Constant {
            value,
            enumeration: Some(enumeration),
        } = kind
        else {
            continue;
        };
        let number = number(value).ok_or_else(|| format!("{name}: {value} is not a number"))?;
        if number == 0 || enumeration == "umbo_status" {
            continue;
        }
        if let Some((other, _)) = names.insert(number, (name, enumeration)) {
            return Err(format!(
                "{name} and {other} are both {number}; each enum has a hundred numbers of its own"
            ));
        }
    }
    let lines = names.iter().map(|(number, (name, enumeration))| {
        format!("    ({number}, \"{name}\", \"{enumeration}\"),\n")
    });
    Ok(format!(
        "//! Generated from src; do not edit. The names of the constants of enums.\n\n/// Number, \
         name and enum, in the order of the numbers.\n#[rustfmt::skip]\npub(super) const NAMES: \
         &[(i32, &str, &str)] = &[\n{}];\n",
        lines.collect::<String>()
    ))
}

/// The number that the value of a constant is: decimal, or a bit of flags.
fn number(value: &str) -> Option<i32> {
    match value.split_once(" << ") {
        Some((one, shift)) => Some(one.parse::<i32>().ok()? << shift.parse::<u32>().ok()?),
        None => value.parse().ok(),
    }
}

/// Writes the headers that differ from what is there, and removes those without a skeleton. Writes
/// the names of constants, too.
pub fn write(root: &Path) -> Result<(), String> {
    let names = constant_names(root)?;
    let path = constant_names_file(root);
    if fs::read_to_string(&path).ok().as_ref() != Some(&names) {
        fs::write(&path, names).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let folder = root.join("include/umbo");
    fs::create_dir_all(folder.join("inline")).map_err(|error| error.to_string())?;
    let headers = generate(root)?;
    for (name, text) in &headers {
        let path = folder.join(name);
        if fs::read_to_string(&path).ok().as_ref() != Some(text) {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    for name in committed(root)? {
        if !headers.iter().any(|(made, _)| *made == name) {
            fs::remove_file(folder.join(&name)).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    Ok(())
}

/// The names of the headers that are there, in order.
pub fn committed(root: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for folder in ["", "inline/"] {
        let path = root.join("include/umbo").join(folder);
        let entries =
            fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let found = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let headers = found.filter(|name| name.ends_with(".h"));
        names.extend(headers.map(|name| format!("{folder}{name}")));
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The declarations of the files of the C layer, by their paths below its folder.
type SourceItems = BTreeMap<String, Vec<Declaration>>;

/// Reads the files of a folder, and of the folders in it that are modules.
fn sources(folder: &Path) -> Result<SourceItems, String> {
    let mut found = SourceItems::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.join("mod.rs").exists() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                let items = items(&read(&path)?).map_err(|problem| format!("{name}: {problem}"))?;
                found.insert(name, items);
            }
        }
    }
    Ok(found)
}

/// The header of a skeleton. `taken` names the functions that headers have one by one.
fn header(
    skeleton: &str,
    sources: &SourceItems,
    zeros: &Zeros,
    taken: &[&str],
) -> Result<String, String> {
    let mut text = String::from("/* Generated from src; do not edit. */\n");
    let fields = |name: &str| {
        let mut all = sources.values().flatten().filter(|item| item.name == name);
        match all.next().map(|item| &item.kind) {
            Some(DeclarationKind::Struct(fields)) => Ok(fields),
            _ => Err(format!("{name} is not a struct")),
        }
    };
    let mut lines = skeleton.lines();
    while let Some(line) = lines.next() {
        if let Some(noun) = directive(line, "handle ") {
            let special = lines
                .by_ref()
                .take_while(|line| directive(line, "end").is_none());
            ownership(noun, special.map(str::to_owned).collect(), &mut text);
        } else if let Some(file) = directive(line, "declarations ") {
            let items = sources
                .get(file)
                .ok_or_else(|| format!("{file} is not there"))?;
            declare(items, zeros, taken, &mut text)
                .map_err(|problem| format!("{file}: {problem}"))?;
        } else if let Some(name) = directive(line, "function ") {
            let mut items = sources.values().flatten();
            let item = items.find(|item| item.name == name);
            let item = item.ok_or_else(|| format!("{name} is not there"))?;
            comment(&item.documentation, "", &mut text);
            declare_item(item, &[], zeros, &mut text)?;
        } else if line == "{{helpers}}" {
            text.push_str(&format!("{}\n", inline::HELPERS_BEGIN));
        } else if line == "{{end}}" {
            text.push_str(&format!("{}\n", inline::HELPERS_END));
        } else if let Some(name) = directive(line, "options ") {
            text.push_str(&cpp::options(name, fields(name)?, zeros)?);
        } else if let Some(words) = directive(line, "enum ") {
            let mut words = words.split(' ');
            let [name, cpp_name, start] = std::array::from_fn(|_| words.next().unwrap_or_default());
            let declares = |items: &&Vec<Declaration>| items.iter().any(|item| item.name == name);
            let items = sources.values().find(declares);
            let items = items.ok_or_else(|| format!("{name} is not there"))?;
            text.push_str(&cpp::enumeration(name, cpp_name, start, items));
        } else if let Some(name) = directive(line, "conversion ") {
            text.push_str(&cpp::conversion(name, fields(name)?, zeros)?);
        } else if let Some(name) = directive(line, "reading ") {
            text.push_str(&cpp::reading(name, fields(name)?, zeros)?);
        } else {
            text.push_str(&with_version(line));
            text.push('\n');
        }
    }
    if let Some(start) = text.find("{{") {
        let unknown = text[start..].lines().next().unwrap_or_default();
        return Err(format!("{unknown} is not known"));
    }
    Ok(text)
}

/// The inline functions that retain and release handles of a noun. `special` says more about the
/// release.
fn ownership(noun: &str, special: Vec<String>, text: &mut String) {
    let words = noun.replace('_', " ");
    let kind = format!("UMBO_HANDLE_{}", noun.to_uppercase());
    let handle = format!("const umbo_{noun} *{noun}");
    let retain = format!("Makes another handle to the same {words}: umbo_retain().");
    let mut release = vec!["Releases a handle: umbo_release().".to_owned()];
    if !special.is_empty() {
        release.push(String::new());
        release.extend(special);
    }
    let functions = [
        (
            vec![retain],
            format!("UMBO_MUST_USE static inline umbo_status umbo_{noun}_retain("),
            vec![handle.clone(), format!("umbo_{noun} **retained")],
            format!("return umbo_retain({noun}, {kind}, retained);"),
        ),
        (
            release,
            format!("static inline void umbo_{noun}_release("),
            vec![handle],
            format!("umbo_release({noun}, {kind});"),
        ),
    ];
    for (documentation, start, parameters, body) in functions {
        text.push('\n');
        comment(&documentation, "", text);
        let mut signature = String::new();
        prototype(&start, &parameters, &mut signature);
        let signature = signature.trim_end().trim_end_matches(';');
        text.push_str(&format!("{signature} {{\n  {body}\n}}\n"));
    }
}

/// The argument of a directive of this name, if the line is one.
fn directive<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.trim()
        .strip_prefix("{{")?
        .strip_suffix("}}")?
        .strip_prefix(name)
}

fn with_version(line: &str) -> String {
    line.replace("{{version}}", env!("CARGO_PKG_VERSION"))
        .replace("{{version_major}}", env!("CARGO_PKG_VERSION_MAJOR"))
        .replace("{{version_minor}}", env!("CARGO_PKG_VERSION_MINOR"))
        .replace("{{version_patch}}", env!("CARGO_PKG_VERSION_PATCH"))
}

/// The beginning of a field of a type of the C layer.
type Zeros = BTreeMap<String, String>;

/// The beginnings of fields of the types that the sources declare.
fn zeros(sources: &SourceItems) -> Result<Zeros, String> {
    let items = || sources.values().flatten();
    let mut zeros = Zeros::new();
    for Declaration { name, kind, .. } in items() {
        let zero = match kind {
            DeclarationKind::Alias(target) if target == "int32_t" => {
                format!("UMBO_ENUM_VALUE({name}, 0)")
            }
            DeclarationKind::Callback { .. } => "NULL".to_owned(),
            _ => continue,
        };
        zeros.insert(name.clone(), zero);
    }
    for Declaration { name, kind, .. } in items() {
        if let DeclarationKind::Constant {
            value,
            enumeration: Some(enumeration),
        } = kind
            && value == "0"
        {
            zeros.insert(enumeration.clone(), name.clone());
        }
    }
    // Those that are fields of others: they do not begin with their size.
    for Declaration { name, kind, .. } in items() {
        if let DeclarationKind::Struct(fields) = kind
            && !has_size(fields)
        {
            let values = fields.iter().map(|field| initial(field, &zeros));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            zeros.insert(name.clone(), format!("{{ {} }}", values.join(", ")));
        }
    }
    Ok(zeros)
}

fn has_size(fields: &[Field]) -> bool {
    fields
        .first()
        .is_some_and(|field| field.declaration == SIZE)
}

/// Writes the declarations of a file: its constants, its types, its functions but those that are
/// taken. An enum's constants stand in it.
fn declare(
    items: &[Declaration],
    zeros: &Zeros,
    taken: &[&str],
    text: &mut String,
) -> Result<(), String> {
    let mut is_first = true;
    for item in items {
        if taken.contains(&item.name.as_str()) {
            continue;
        }
        if let DeclarationKind::Constant {
            enumeration: Some(enumeration),
            ..
        } = &item.kind
        {
            if !items.iter().any(|item| item.name == *enumeration) {
                return Err(format!(
                    "{}: its type {enumeration} is in another file",
                    item.name
                ));
            }
            continue;
        }
        if !std::mem::take(&mut is_first) {
            text.push('\n');
        }
        comment(&item.documentation, "", text);
        declare_item(item, items, zeros, text)?;
    }
    Ok(())
}

/// Writes one declaration of those in `items`, without its comment.
fn declare_item(
    item: &Declaration,
    items: &[Declaration],
    zeros: &Zeros,
    text: &mut String,
) -> Result<(), String> {
    let name = &item.name;
    match &item.kind {
        DeclarationKind::Constant { value, .. } => {
            text.push_str(&format!("#define {name} ({value})\n"));
        }
        DeclarationKind::Opaque => text.push_str(&format!("typedef struct {name} {name};\n")),
        DeclarationKind::Alias(aliased) => {
            let constants = items.iter().filter(|item| item.is_constant_of(name));
            let constants: Vec<&Declaration> = constants.collect();
            if constants.is_empty() {
                text.push_str(&format!("typedef {aliased} {name};\n"));
            } else if aliased != "int32_t" {
                return Err(format!("{name} has constants, but is not an i32"));
            } else {
                enumeration(name, &constants, text);
            }
        }
        DeclarationKind::Struct(fields) => {
            structure(name, fields, text);
            if item.is_begun {
                text.push_str(&initialiser(name, fields, zeros)?);
            }
        }
        DeclarationKind::Callback {
            returns,
            parameters,
        } => {
            prototype(&format!("typedef {returns} (*{name})("), parameters, text);
        }
        DeclarationKind::Function {
            returns,
            parameters,
        } => function(name, returns, parameters, text),
    }
    Ok(())
}

/// Writes a struct.
fn structure(name: &str, fields: &[Field], text: &mut String) {
    text.push_str(&format!("typedef struct {name} {{\n"));
    for field in fields {
        // What core.h says of all structs that begin with their size.
        if field.declaration != SIZE {
            comment(&field.documentation, "  ", text);
        }
        text.push_str(&format!("  {};\n", field.declaration));
    }
    text.push_str(&format!("}} {name};\n"));
}

/// Writes the prototype of an exported function.
fn function(name: &str, returns: &str, parameters: &[String], text: &mut String) {
    // Structs that another header may define too are known by their tags.
    let tagged = |one: &String| one.replace("DLManagedTensor", "struct DLManagedTensor");
    let parameters: Vec<String> = parameters.iter().map(tagged).collect();
    // Who gives a status gets it back, and knows it.
    let given = parameters.iter().any(|one| one.starts_with("umbo_status "));
    let must_use = if returns == "umbo_status" && !given {
        "UMBO_MUST_USE "
    } else {
        ""
    };
    let blank = if returns.ends_with('*') { "" } else { " " };
    let start = format!("{must_use}UMBO_API {returns}{blank}{name}(");
    prototype(&start, &parameters, text);
}

fn enumeration(name: &str, constants: &[&Declaration], text: &mut String) {
    text.push_str(&format!("typedef enum {name} UMBO_INT32 {{\n"));
    for (position, constant) in constants.iter().enumerate() {
        comment(&constant.documentation, "  ", text);
        if let DeclarationKind::Constant { value, .. } = &constant.kind {
            let comma = if position + 1 < constants.len() {
                ","
            } else {
                ""
            };
            text.push_str(&format!("  {} = {value}{comma}\n", constant.name));
        }
    }
    text.push_str(&format!("}} {name};\n"));
}

/// The beginning of a field.
fn initial(field: &Field, zeros: &Zeros) -> Result<String, String> {
    if let Some(value) = &field.default {
        return Ok(value.clone());
    }
    let declaration = &field.declaration;
    let unreadable = || format!("nothing is known to begin '{declaration}' with");
    let (declaration, count) = match declaration.split_once('[') {
        Some((before, count)) => {
            let count = count
                .trim_end_matches(']')
                .parse()
                .map_err(|_| unreadable())?;
            (before, Some(count))
        }
        None => (declaration.as_str(), None),
    };
    let kind = declaration[..declaration.rfind([' ', '*']).ok_or_else(unreadable)? + 1].trim();
    let zero = match kind {
        "double" | "float" => "0.0",
        _ if kind.ends_with('*') => "NULL",
        _ if kind.ends_with("_t") => "0",
        _ => zeros.get(kind).ok_or_else(unreadable)?,
    };
    Ok(count.map_or(zero.to_owned(), |count| {
        format!("{{ {} }}", vec![zero; count].join(", "))
    }))
}

/// The macros that begin a struct with its size and its defaults.
fn initialiser(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let mut values = vec![format!("UMBO_STRUCT_SIZE({name})")];
    for field in &fields[1..] {
        values.push(initial(field, zeros).map_err(|problem| format!("{name}: {problem}"))?);
    }
    let values = values.join(", ");
    let macro_name = format!("{}_INIT", name.to_uppercase());
    if !name.ends_with("_options") {
        return Ok(format!(
            "\n{}",
            define(&macro_name, &format!("{{ {values} }}"))
        ));
    }
    let defaults = format!("{name}_defaults");
    let list = define(&defaults, &values);
    Ok(format!(
        "\n{list}{}",
        define(&macro_name, &format!("{{ {defaults} }}"))
    ))
}

/// The definition of a macro, in as few lines as it fits into.
fn define(name: &str, value: &str) -> String {
    let start = format!("#define {name}");
    if start.len() + 1 + value.len() <= WIDTH {
        return format!("{start} {value}\n");
    }
    let mut text = start;
    let mut line = String::new();
    for word in value.split(' ') {
        if line.is_empty() || line.len() + 3 + word.len() > WIDTH {
            text.push_str(&line);
            text.push_str(" \\\n");
            line = if line.is_empty() { " " } else { "   " }.to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    text + &line + "\n"
}

/// A comment that documents what comes next.
fn comment(lines: &[String], indentation: &str, text: &mut String) {
    let lines = broken(lines, WIDTH - indentation.len() - 3);
    match lines.as_slice() {
        [] => {}
        [line] if indentation.len() + line.len() + 7 <= WIDTH => {
            text.push_str(&format!("{indentation}/** {line} */\n"));
        }
        _ => {
            text.push_str(&format!("{indentation}/**\n"));
            for line in &lines {
                text.push_str(format!("{indentation} * {line}").trim_end());
                text.push('\n');
            }
            text.push_str(&format!("{indentation} */\n"));
        }
    }
}

/// The lines, those that are too long broken: what is left over begins the next line of the same
/// paragraph, or is a line by itself, indented as continued lines of lists and tags are.
fn broken(lines: &[String], width: usize) -> Vec<String> {
    let mut result: Vec<String> = Vec::new();
    let mut rest = String::new();
    for line in lines {
        let words = line.trim_start();
        let begins = words.is_empty() || words.starts_with(['-', '@', '|']);
        let mut line = line.clone();
        if !rest.is_empty() && begins {
            result.push(std::mem::take(&mut rest));
        } else if !rest.is_empty() {
            let indentation = &line[..line.len() - words.len()];
            line = format!("{indentation}{} {words}", rest.trim_start());
            rest.clear();
        }
        if line.len() > width
            && let Some(end) = line[..=width].rfind(' ')
        {
            let continued = if line.starts_with(['-', '@', ' ']) {
                "  "
            } else {
                ""
            };
            rest = format!("{continued}{}", &line[end + 1..]);
            line.truncate(end);
        }
        result.push(line);
    }
    result.extend(Some(rest).filter(|rest| !rest.is_empty()));
    result
}

/// A prototype, in as few lines as it fits into.
fn prototype(start: &str, parameters: &[String], text: &mut String) {
    let line = format!("{start}{});\n", parameters.join(", "));
    if line.len() <= WIDTH + 1 {
        text.push_str(&line);
        return;
    }
    text.push_str(start);
    let mut line = String::new();
    for (position, parameter) in parameters.iter().enumerate() {
        let end = if position + 1 < parameters.len() {
            ","
        } else {
            ");"
        };
        if line.is_empty() || line.len() + parameter.len() + end.len() + 1 > WIDTH {
            text.push_str(&line);
            line = format!("\n    {parameter}{end}");
        } else {
            line.push_str(&format!(" {parameter}{end}"));
        }
    }
    text.push_str(&line);
    text.push('\n');
}
