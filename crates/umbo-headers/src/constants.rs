//! The names of the constants of enums, which the C layer has for its messages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::items::{Declaration, DeclarationKind};
use crate::sources;

/// The file in which the C layer has the names of the constants of its enums, for messages.
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
