//! What of the C++ layer follows from the C API alone: enums, and structs of options whose fields are numbers,
//! flags and enums, with the defaults of C.

use super::items::{Field, Item, Kind};
use super::{Zeros, initial};

/// Names that are keywords of C++ or that macros have taken, and what stands for them.
const OTHERS: [(&str, &str); 4] = [
    ("auto", "automatic"),
    ("bool", "boolean"),
    ("default", "by_default"),
    ("struct", "structure"),
];

/// The C++ enum, called `own`, of a C enum, and the function that makes the one of the other. What constants
/// begin with is left out of their names.
pub fn enumeration(name: &str, own: &str, start: &str, items: &[Item]) -> String {
    let of_enum =
        |item: &&Item| matches!(&item.kind, Kind::Constant { of: Some(of), .. } if of == name);
    let mut text = format!("enum class {own} : std::int32_t {{\n");
    for Item { name: constant, .. } in items.iter().filter(of_enum) {
        let short = constant.strip_prefix(start).or(constant.strip_prefix("UMBO_"));
        let short = short.unwrap_or_default().to_lowercase();
        let other = OTHERS.iter().find(|(keyword, _)| *keyword == short);
        let short = other.map_or(short.as_str(), |(_, other)| other);
        text.push_str(&format!("    {short} = {constant},\n"));
    }
    text + &format!(
        "}};\n\nconstexpr {name} to_c({own} which) noexcept {{\n    return static_cast<{name}>(which);\n}}\n"
    )
}

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
