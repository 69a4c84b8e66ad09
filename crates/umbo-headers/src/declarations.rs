//! Declarations as C has them.

use crate::initial::{Zeros, initialiser};
use crate::items::{Declaration, DeclarationKind, Field};
use crate::layout::{comment, prototype};

/// Writes the declarations of a file: its constants, its types, its functions but those that are
/// taken. An enum's constants stand in it.
pub(crate) fn declare(
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
pub(crate) fn declare_item(
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
        if !field.is_size() {
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

/// The inline functions that retain and release handles of a noun. `special` says more about the
/// release.
pub(crate) fn ownership(noun: &str, special: Vec<String>, text: &mut String) {
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
