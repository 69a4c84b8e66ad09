//! Reads the functions, structs and callback types out of the C headers.
//!
//! The headers are machine-made and plain: one declaration after another, functions marked by
//! `UMBO_API`. So text processing is enough, and what it does not understand
//! is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One parameter of a function.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its type, with single blanks and `*` set apart, such as `const umbo_value * const *`.
    pub kind: String,
    /// The documentation says that it may be `NULL`.
    pub nullable: bool,
    /// What stands there is replaced.
    pub replaced: bool,
}

/// One function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it returns, written like a parameter's type.
    pub returns: String,
    /// Its parameters in order.
    pub parameters: Vec<Parameter>,
}

impl Function {
    /// The exported function that messages name: the typed ones that retain are inline over one.
    pub fn exported(&self) -> &str {
        if self.name.ends_with("_retain") {
            "umbo_retain"
        } else {
            &self.name
        }
    }
}

/// A constant of an enum.
#[derive(Debug)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// It stands for what is not given.
    pub is_zero: bool,
}

/// What the header declares.
#[derive(Debug, Default)]
pub struct Header {
    /// The public functions in order.
    pub functions: Vec<Function>,
    /// The structs whose first field is `struct_size`.
    pub sized_structs: BTreeSet<String>,
    /// The structs that have fields.
    pub structs: BTreeSet<String>,
    /// Their fields, other than arrays and functions written in place.
    pub fields: BTreeMap<String, Vec<Parameter>>,
    /// The types that are pointers to functions.
    pub callbacks: BTreeSet<String>,
    /// The types that are other names of integers.
    pub integers: BTreeMap<String, String>,
    /// The enums, with their constants.
    pub enums: BTreeMap<String, Vec<Constant>>,
    /// The names of its macros.
    pub macros: BTreeSet<String>,
}

/// The text of a header and, before it, of those that it includes; each file once.
pub fn with_included(path: &Path, seen: &mut BTreeSet<String>) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut all = String::new();
    for line in text.lines() {
        let included = line
            .strip_prefix("#include <umbo/")
            .and_then(|rest| rest.strip_suffix('>'))
            // Bodies of what the header declares.
            .filter(|name| !name.starts_with("inline/"));
        if let Some(name) = included
            && seen.insert(name.to_owned())
        {
            all.push_str(&with_included(&path.with_file_name(name), seen)?);
        }
    }
    Ok(all + &text)
}

/// Reads the text of headers.
pub fn read(text: &str) -> Result<Header, String> {
    let mut header = Header::default();
    let defined = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("#define "));
    header.macros = defined
        .filter_map(|macro_line| macro_line.split([' ', '(']).next())
        .map(str::to_owned)
        .collect();
    let mut documentation = String::new();
    for piece in pieces(text)? {
        match piece {
            Piece::Comment(comment) => documentation = comment,
            Piece::CommentLine(line) => {
                documentation.push(' ');
                documentation.push_str(&line);
            }
            Piece::Declaration(declaration) => {
                header.declare(&declaration, &documentation)?;
                documentation.clear();
            }
        }
    }
    Ok(header)
}

enum Piece {
    Comment(String),
    CommentLine(String),
    Declaration(String),
}

/// Comments and declarations in order; preprocessor lines and the braces of `extern "C"` left
/// out.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let lines = text.lines().scan(false, |continued, line| {
        let directive = *continued || line.trim_start().starts_with('#');
        *continued = directive && line.ends_with('\\');
        Some(if directive { "" } else { line })
    });
    let text = lines
        .collect::<Vec<_>>()
        .join("\n")
        .replace("extern \"C\" {", "");
    let mut pieces = Vec::new();
    let mut declaration = String::new();
    let mut depth = 0usize;
    let mut rest = text.as_str();
    while let Some(character) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or("a comment does not end")?;
            // Comments inside of a declaration (of a struct's field) document no function.
            if declaration.trim().is_empty() {
                pieces.push(Piece::Comment(comment[..end].to_owned()));
            }
            rest = &comment[end + 2..];
            continue;
        }
        if let Some(comment) = rest.strip_prefix("//") {
            let (line, after) = comment.split_at(comment.find('\n').unwrap_or(comment.len()));
            if declaration.trim().is_empty() {
                pieces.push(Piece::CommentLine(line.trim_start_matches('/').to_owned()));
            }
            rest = after;
            continue;
        }
        rest = &rest[character.len_utf8()..];
        match character {
            '{' => depth += 1,
            // The closing brace of `extern "C"`.
            '}' if depth == 0 => continue,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                pieces.push(Piece::Declaration(std::mem::take(&mut declaration)));
                continue;
            }
            _ => {}
        }
        declaration.push(character);
        let start = declaration.trim_start();
        let start = start.strip_prefix("UMBO_MUST_USE ").unwrap_or(start);
        if character == '}' && depth == 0 && start.starts_with("static inline ") {
            pieces.push(Piece::Declaration(std::mem::take(&mut declaration)));
        }
    }
    Ok(pieces)
}

impl Header {
    fn declare(&mut self, declaration: &str, documentation: &str) -> Result<(), String> {
        let text = spaced(declaration);
        if let Some(definition) = text.strip_prefix("typedef ") {
            if let Some(end) = definition.rfind('}') {
                let name = definition[end + 1..].trim().to_owned();
                let body = definition
                    .split_once('{')
                    .map_or("", |(_, body)| body)
                    .trim_start();
                if definition.starts_with("enum ") {
                    self.integers.insert(name.clone(), "int32_t".to_owned());
                    self.enums.insert(name, constants(body));
                    return Ok(());
                }
                if body.starts_with("size_t struct_size") {
                    self.sized_structs.insert(name.clone());
                }
                self.fields.insert(name.clone(), fields(body));
                self.structs.insert(name);
            } else if definition.contains("( *") {
                let name = definition
                    .split("( *")
                    .nth(1)
                    .and_then(|rest| rest.split(')').next());
                let name = name.ok_or_else(|| format!("unreadable callback type: {text}"))?;
                self.callbacks.insert(name.trim().to_owned());
            } else if !definition.starts_with("struct ") {
                let (kind, name) = definition
                    .trim()
                    .rsplit_once(' ')
                    .ok_or_else(|| format!("typedef {text}"))?;
                self.integers.insert(name.to_owned(), kind.to_owned());
            }
            return Ok(());
        }
        // A struct of others, known by its name.
        let forward = text.starts_with("struct ") && !text.contains('{');
        let marked = text.strip_prefix("UMBO_MUST_USE ").unwrap_or(&text);
        let inline = marked.strip_prefix("static inline ");
        let declared =
            match inline.map(|text| text.split_once('{').map_or(text, |(start, _)| start)) {
                // Those of each type stand for umbo_retain() and umbo_release().
                Some(start) if start.contains("_retain(") || start.contains("_release(") => {
                    start.trim()
                }
                None if !forward => marked
                    .strip_prefix("UMBO_API ")
                    .ok_or_else(|| format!("neither a function nor a type: {text}"))?,
                _ => return Ok(()),
            };
        if ["umbo_retain(", "umbo_release("]
            .iter()
            .any(|generic| declared.contains(generic))
        {
            return Ok(());
        }
        // A call ends the program (tests/c/test_check.c).
        if declared.starts_with("UMBO_NO_RETURN ") {
            return Ok(());
        }
        let (before, after) = declared
            .split_once('(')
            .ok_or_else(|| format!("not a function: {text}"))?;
        let (returns, name) = before
            .trim()
            .rsplit_once(' ')
            .ok_or_else(|| format!("neither a function nor a type: {text}"))?;
        let parameters = after.trim().trim_end_matches(')').trim();
        let mut function = Function {
            name: name.to_owned(),
            returns: returns.trim().to_owned(),
            parameters: Vec::new(),
        };
        if parameters != "void" && !parameters.is_empty() {
            for parameter in parameters.split(',') {
                let (kind, name) = parameter
                    .trim()
                    .rsplit_once(' ')
                    .filter(|(_, name)| *name != "*")
                    .ok_or_else(|| format!("{}: a parameter has no name: {text}", function.name))?;
                function.parameters.push(Parameter {
                    name: name.to_owned(),
                    kind: kind.replace("struct ", ""),
                    nullable: false,
                    replaced: false,
                });
            }
        }
        let is_pointer = |parameter: &&Parameter| {
            parameter.kind.ends_with('*') || self.callbacks.contains(&parameter.kind)
        };
        let names: Vec<_> = function
            .parameters
            .iter()
            .filter(is_pointer)
            .map(|parameter| parameter.name.clone())
            .collect();
        for parameter in &mut function.parameters {
            parameter.nullable = may_be_null(documentation, &parameter.name, &names);
        }
        // A transformation puts another dataset into the place of its first argument.
        if let Some(first) = function.parameters.first_mut() {
            first.replaced = name.starts_with("umbo_dataset_") && first.kind == "umbo_dataset * *";
        }
        self.functions.push(function);
        Ok(())
    }
}

/// The constants in the body of an enum.
fn constants(body: &str) -> Vec<Constant> {
    let body = body.split('}').next().unwrap_or_default();
    let lines = body.split(',').filter_map(|line| line.split_once(" = "));
    let constant = |(name, value): (&str, &str)| Constant {
        name: name.trim().to_owned(),
        is_zero: value.trim() == "0",
    };
    lines.map(constant).collect()
}

/// The fields in the body of a struct, which ends in a brace.
fn fields(body: &str) -> Vec<Parameter> {
    body.rsplit_once('}')
        .map_or(body, |(fields, _)| fields)
        .split(';')
        .filter(|field| !field.contains(['(', '[']))
        .filter_map(|field| field.trim().rsplit_once(' '))
        .map(|(kind, name)| Parameter {
            name: name.to_owned(),
            kind: kind.replace("struct ", ""),
            nullable: false,
            replaced: false,
        })
        .collect()
}

/// Single blanks, and `*`, `(` set apart by them.
fn spaced(text: &str) -> String {
    let text = text
        .replace('*', " * ")
        .replace('(', "( ")
        .replace(')', " )");
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace(" (", "(")
}

/// Whether the documentation says that the parameter may be `NULL`: in what it says of the
/// parameter alone, by "NULL:" or "May be NULL"; or elsewhere, where each `NULL` speaks of the
/// nearest pointer parameter that is named, in backticks, before it. "NULL if ..." is a condition
/// that good arguments do not meet, and "gets NULL" is about what a function writes. User data, its
/// destroy function, and options, of which "Not NULL" is not said, may always be left out.
fn may_be_null(documentation: &str, name: &str, names: &[String]) -> bool {
    let sentences = documentation.split("@param[").skip(1).filter_map(|rest| {
        let (parameter, says) = rest.split_once("] ")?.1.split_once(char::is_whitespace)?;
        let says = says.split("@return").next()?.split("\n *\n").next()?;
        (parameter == name).then_some(says)
    });
    let sentences: String = sentences.collect();
    match name {
        "user_data" | "destroy" | "payload" => return true,
        "options" => return !sentences.contains("Not NULL"),
        _ if sentences.contains("NULL:") || sentences.contains("May be NULL") => return true,
        _ => {}
    }
    let words: Vec<_> = documentation
        .split_whitespace()
        .filter(|word| *word != "*")
        .collect();
    let text = words.join(" ");
    text.match_indices("NULL").any(|(position, _)| {
        let (before, after) = text.split_at(position);
        let last_mention = |name: &String| before.rfind(&format!("`{name}`"));
        let nearest = names.iter().max_by_key(|name| last_mention(name));
        nearest.is_some_and(|nearest| nearest == name && last_mention(nearest).is_some())
            && !after.starts_with("NULL if ")
            && !before.ends_with("gets ")
    })
}
