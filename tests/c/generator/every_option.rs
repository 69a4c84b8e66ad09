//! Writes a C program about the macros that structs begin with: `UMBO_OPTIONS` with one field given
//! is the `UMBO_..._INIT` with that field changed, for each field of each struct of options.

use std::fmt::Write;

use crate::header::{Header, Parameter};

/// The program without what the header says.
const FRAME: &str = include_str!("every_option.c");

/// The whole program, and the number of fields in it.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let mut cases = String::new();
    let mut calls = String::new();
    let mut count = 0;
    for (name, noun) in structs_of_options(header) {
        let fields = &header.fields[name];
        let compared: String = fields
            .iter()
            .map(|field| format!(" && one->{0} == other->{0}", field.name))
            .collect();
        writeln!(
            cases,
            "static int same_{noun}(const {name} *one, const {name} *other) {{\n    \
             return 1{compared};\n}}\n"
        )
        .expect("a string takes it");
        for field in fields.iter().filter(|field| field.name != "struct_size") {
            let value = other_value(header, name, field)?;
            let case = format!("given_{noun}_{}", field.name);
            write_case(&mut cases, (name, noun), field, (&case, &value));
            writeln!(calls, "    {case}();").expect("a string takes it");
            count += 1;
        }
    }
    let program = FRAME
        .replace("/* CASES */\n", &cases)
        .replace("    /* CALLS */\n", &calls);
    Ok((program, count))
}

/// The structs of options that begin with their defaults, and what `UMBO_OPTIONS` calls them.
fn structs_of_options(header: &Header) -> impl Iterator<Item = (&str, &str)> {
    header.sized_structs.iter().filter_map(|name| {
        let has_defaults = header.macros.contains(&format!("{name}_defaults"));
        has_defaults.then(|| name.strip_suffix("_options").map(|noun| (&**name, noun)))?
    })
}

/// A value that the field does not have by default.
fn other_value(header: &Header, of_struct: &str, field: &Parameter) -> Result<String, String> {
    let Parameter { name, kind, .. } = field;
    if kind.ends_with(" *") {
        return Ok("place".to_owned());
    }
    if header.callbacks.contains(kind) {
        return Ok(format!("({kind})some_function"));
    }
    if let Some(constants) = header.enums.get(kind) {
        // Not the first, which may be the default.
        let last = constants.last().map(|constant| constant.name.clone());
        return last.ok_or_else(|| format!("{kind} has no constants"));
    }
    match kind.as_str() {
        "double" => Ok("0.375".to_owned()),
        "int32_t" | "int64_t" | "uint64_t" | "size_t" => Ok("77".to_owned()),
        _ => Err(format!("{of_struct}: no value for '{kind} {name}'")),
    }
}

/// A function that compares the expression with the macro, both with one field changed.
fn write_case(
    cases: &mut String,
    (name, noun): (&str, &str),
    field: &Parameter,
    (case, value): (&str, &str),
) {
    let initial = format!("{}_INIT", name.to_uppercase());
    let field = &field.name;
    writeln!(
        cases,
        "static void {case}(void) {{\n    {name} expected = {initial};\n    const {name} \
         unchanged = expected;\n    const {name} *made = &UMBO_OPTIONS({noun}, .{field} = \
         {value});\n    CHECK(same_{noun}(&unchanged, &expected));\n    expected.{field} = \
         {value};\n    CHECK(!same_{noun}(&unchanged, &expected));\n    \
         CHECK(same_{noun}(made, &expected));\n}}\n"
    )
    .expect("a string takes it");
}
