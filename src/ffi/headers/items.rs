//! What a source file of the C layer declares, as cbindgen reads it.

use std::collections::BTreeMap;
use std::path::Path;

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, Language, Layout, Style};

use super::read;

/// Something that a source file declares.
pub struct Item {
    /// Its documentation, line by line.
    pub documentation: Vec<String>,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a source file can declare.
pub enum Kind {
    /// A constant with its value, and its type if that is not one of Rust's own.
    Constant { value: String, of: Option<String> },
    /// A struct that is known by its name only.
    Opaque,
    /// A struct with its fields, each with its documentation.
    Struct(Vec<(Vec<String>, String)>),
    /// Another name of a type.
    Alias(String),
    /// A type of functions: what they return and take.
    Callback { returns: String, parameters: Vec<String> },
    /// A function: what it returns and takes.
    Function { returns: String, parameters: Vec<String> },
}

/// What a source file declares, in cbindgen's order: constants, types, functions.
pub fn items(path: &Path) -> Result<Vec<Item>, String> {
    let source = read(path)?;
    let declared = |start| declared(&source, start);
    let mut config = Config {
        language: Language::C,
        no_includes: true,
        documentation_style: DocumentationStyle::Doxy,
        documentation_length: DocumentationLength::Full,
        usize_is_size_t: true,
        style: Style::Type,
        // One declaration is one line; what is too long is broken here.
        line_length: usize::MAX,
        ..Config::default()
    };
    config.function.args = Layout::Horizontal;
    // Also those that no function of the file takes.
    config.export.include =
        declared("pub struct ").chain(declared("pub type ")).map(|(name, _)| name.into()).collect();
    let mut text = Vec::new();
    let bindings = Builder::new().with_config(config).with_src(path).generate();
    bindings.map_err(|error| error.to_string())?.write(&mut text);
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    let types: BTreeMap<_, _> = declared("pub const ")
        .filter_map(|(name, rest)| Some((name, rest.strip_prefix(": ")?.split(' ').next()?)))
        .collect();
    parse(&text, &types)
}

/// The name and the rest of the line of each line of a source that starts so.
pub fn declared<'a>(source: &'a str, start: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    source.lines().filter_map(move |line| {
        let line = line.strip_prefix(start)?;
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        Some(line.split_at(end)).filter(|(name, _)| name.to_lowercase().starts_with("umbo_"))
    })
}

/// Reads what cbindgen has written.
fn parse(text: &str, types: &BTreeMap<&str, &str>) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut documentation = Vec::new();
    let mut fields = None;
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line == "*/" {
            continue;
        }
        if line == "/**" {
            documentation.clear();
            continue;
        }
        if let Some(line) = line.strip_prefix('*') {
            documentation.push(line.strip_prefix(' ').unwrap_or(line).to_owned());
            continue;
        }
        let documentation = std::mem::take(&mut documentation);
        if line == "typedef struct {" {
            fields = Some((documentation, Vec::new()));
            continue;
        }
        if let Some((of_struct, mut list)) = fields.take() {
            if let Some(name) = line.strip_prefix("} ").and_then(|line| line.strip_suffix(';')) {
                let (name, kind) = (name.to_owned(), Kind::Struct(list));
                items.push(Item { documentation: of_struct, name, kind });
            } else {
                list.push((documentation, line.to_owned()));
                fields = Some((of_struct, list));
            }
            continue;
        }
        let (name, kind) = declaration(line, types).ok_or_else(|| format!("what is '{line}'?"))?;
        items.push(Item { documentation, name, kind });
    }
    Ok(items)
}

/// The name and the kind of what one line declares.
fn declaration(line: &str, types: &BTreeMap<&str, &str>) -> Option<(String, Kind)> {
    if let Some(define) = line.strip_prefix("#define ") {
        let (name, value) = define.split_once(' ')?;
        let of = types.get(name).filter(|of| of.starts_with("umbo_")).map(|of| (*of).to_owned());
        return Some((name.to_owned(), Kind::Constant { value: value.to_owned(), of }));
    }
    let line = line.strip_suffix(';')?;
    let Some(definition) = line.strip_prefix("typedef ") else {
        let (before, parameters) = line.strip_suffix(')')?.split_once('(')?;
        let name = &before[before.rfind([' ', '*'])? + 1..];
        let returns = before.strip_suffix(name)?.trim().to_owned();
        let kind = Kind::Function { returns, parameters: list(parameters) };
        return Some((name.to_owned(), kind));
    };
    if let Some((returns, rest)) = definition.split_once("(*") {
        let (name, parameters) = rest.strip_suffix(')')?.split_once(")(")?;
        let kind =
            Kind::Callback { returns: returns.trim().to_owned(), parameters: list(parameters) };
        return Some((name.to_owned(), kind));
    }
    let (of, name) = definition.rsplit_once(' ')?;
    let kind = if of.starts_with("struct ") { Kind::Opaque } else { Kind::Alias(of.to_owned()) };
    Some((name.to_owned(), kind))
}

fn list(parameters: &str) -> Vec<String> {
    parameters.split(',').map(|parameter| parameter.trim().to_owned()).collect()
}
