//! The structs of options of the C++ layer whose fields are numbers, flags and enums: those of the C structs,
//! with the same defaults.

use super::items::Field;
use super::{Zeros, initial};

/// How C++ has a field of C: its type, its default, and how C gets it from `how.NAME`.
fn member(field: &Field, zeros: &Zeros) -> Result<(String, [String; 3]), String> {
    let value = initial(field, zeros)?;
    let (kind, name) = field.declaration.split_once(' ').unwrap_or_default();
    let given = format!("how.{name}");
    let member = match kind {
        "double" => ["double".to_owned(), value, given],
        "int64_t" | "uint64_t" => [format!("std::{kind}"), value, given],
        "int32_t" => ["bool".to_owned(), (value != "0").to_string(), format!("{given} ? 1 : 0")],
        _ => match kind.strip_prefix("umbo_") {
            Some(own) => {
                let own = format!("umbo::{own}");
                [own.clone(), format!("{own}{{{value}}}"), format!("to_c({given})")]
            }
            None => return Err(format!("C++ has no '{}'", field.declaration)),
        },
    };
    Ok((name.to_owned(), member))
}

/// The C++ struct of a C struct.
pub fn options(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let mut text = format!("struct {} {{\n", name.trim_start_matches("umbo_"));
    for field in &fields[1..] {
        let (name, [kind, value, _]) = member(field, zeros)?;
        text.push_str(&format!("    {kind} {name} = {value};\n"));
    }
    Ok(text + "};\n")
}

/// The function that makes the C struct of the C++ struct.
pub fn conversion(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let own = name.trim_start_matches("umbo_");
    let mut text = format!(
        "inline {name} raw_options(const {own} &how) noexcept {{\n    auto raw = {name}_default();\n"
    );
    for field in &fields[1..] {
        let (name, [_, _, converted]) = member(field, zeros)?;
        text.push_str(&format!("    raw.{name} = {converted};\n"));
    }
    Ok(text + "    return raw;\n}\n")
}
