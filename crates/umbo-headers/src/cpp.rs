//! The part of the C++ layer that follows from the C API alone: enums, and structs of options whose
//! fields are numbers, flags and enums, with the defaults of C.

use super::initial::{Zeros, initial};
use super::items::{Declaration, Field};

/// Names that are keywords of C++ or that macros have taken, and what stands for them.
const OTHERS: [(&str, &str); 4] = [
    ("auto", "automatic"),
    ("bool", "boolean"),
    ("default", "by_default"),
    ("struct", "structure"),
];

/// The C++ enum, called `cpp_name`, of a C enum, and the function that makes the one of the other.
/// The prefix of the constants is left out of their names.
pub fn enumeration(name: &str, cpp_name: &str, start: &str, items: &[Declaration]) -> String {
    let mut text = format!("enum class {cpp_name} : std::int32_t {{\n");
    for Declaration { name: constant, .. } in items.iter().filter(|item| item.is_constant_of(name))
    {
        let short = constant
            .strip_prefix(start)
            .or(constant.strip_prefix("UMBO_"));
        let short = short.unwrap_or_default().to_lowercase();
        let other = OTHERS.iter().find(|(keyword, _)| *keyword == short);
        let short = other.map_or(short.as_str(), |(_, other)| other);
        text.push_str(&format!("    {short} = {constant},\n"));
    }
    text + &format!(
        "}};\n\nconstexpr {name} to_c({cpp_name} which) noexcept {{\n    return \
         static_cast<{name}>(which);\n}}\n"
    )
}

/// How C++ has a field of C: its type, its default, how C gets it from `how.NAME`, and how C++ from
/// `raw.NAME`.
fn member(field: &Field, zeros: &Zeros) -> Result<(String, [String; 4]), String> {
    let value = initial(field, zeros)?;
    let (kind, name) = field
        .declaration
        .rsplit_once([' ', '*'])
        .unwrap_or_default();
    let given = format!("how.{name}");
    let raw = format!("raw.{name}");
    let member = match kind {
        "double" => ["double".to_owned(), value, given, raw],
        "int64_t" | "uint64_t" => [format!("std::{kind}"), value, given, raw],
        "int32_t" => {
            let start = (value != "0").to_string();
            let to_c = format!("{given} ? 1 : 0");
            ["bool".to_owned(), start, to_c, format!("{raw} != 0")]
        }
        "const char " => {
            let to_c = format!("{given}.c_str()");
            let from_c = format!("{raw} == nullptr ? \"\" : {raw}");
            ["std::string".to_owned(), "{}".to_owned(), to_c, from_c]
        }
        _ => match kind.strip_prefix("umbo_") {
            Some(cpp_name) => {
                let cpp_name = format!("umbo::{cpp_name}");
                // One that is not a constant is 0.
                let start = if value.starts_with("UMBO_ENUM_VALUE") {
                    ""
                } else {
                    &value
                };
                let start = format!("{cpp_name}{{{start}}}");
                let from_c = format!("{cpp_name}{{{raw}}}");
                [cpp_name, start, format!("to_c({given})"), from_c]
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
        let (name, [kind, value, ..]) = member(field, zeros)?;
        text.push_str(&format!("    {kind} {name} = {value};\n"));
    }
    Ok(text + "};\n")
}

/// The function that makes the C struct of the C++ struct.
pub fn conversion(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let cpp_name = name.trim_start_matches("umbo_");
    let mut text = format!(
        "inline {name} raw_options(const {cpp_name} &how) noexcept {{\n    {name} raw = {}_INIT;\n",
        name.to_uppercase()
    );
    for field in &fields[1..] {
        let (name, [_, _, converted, _]) = member(field, zeros)?;
        text.push_str(&format!("    raw.{name} = {converted};\n"));
    }
    Ok(text + "    return raw;\n}\n")
}

/// The function that makes the C++ struct of the C struct.
pub fn reading(name: &str, fields: &[Field], zeros: &Zeros) -> Result<String, String> {
    let cpp_name = name.trim_start_matches("umbo_");
    let mut text = format!("inline {cpp_name} from_c(const {name} &raw) {{\n    {cpp_name} own;\n");
    for field in &fields[1..] {
        let (name, [_, _, _, read]) = member(field, zeros)?;
        text.push_str(&format!("    own.{name} = {read};\n"));
    }
    Ok(text + "    return own;\n}\n")
}
