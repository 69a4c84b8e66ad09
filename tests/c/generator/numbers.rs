//! Writes a C program that gives extreme numbers to the functions: for each integer argument, each
//! integer field of a struct that goes in, and each array of sizes, one after the other, with good
//! arguments everywhere else; fields that are real get -1 and NaN. Each argument and field of an
//! enum also gets a constant of each other enum. What the program demands of the answers is in
//! `numbers/frame.c`.

use std::fmt::Write;

use crate::cases::with_shared;
use crate::header::{Function, Header, Parameter};
use crate::matrix::{Prepared, prepared};
use crate::number_tables::{
    AFTER, BY_ARRAYS, FIELDS, OTHER_ANSWERS, OTHER_NAMES, PARTS, RECIPES, UNREAD, USES,
    functions_in_tables,
};

/// The program without what the header says, in the order in which its parts need each other.
const FRAME: &str = concat!(
    include_str!("numbers/frame.c"),
    include_str!("matrix/given.c"),
    include_str!("numbers/report.c"),
    include_str!("matrix/callbacks.c"),
    include_str!("matrix/objects.c"),
    include_str!("numbers/uses.c"),
    include_str!("numbers/children.c"),
);

/// One place for a number.
struct Place {
    /// How it is called.
    name: String,
    /// The parameter that has it, or leads to it.
    parameter: usize,
    kind: Kind,
    /// The enum whose constants it takes.
    of_enum: Option<String>,
}

enum Kind {
    /// The parameter itself, of this integer type.
    Number(String),
    /// The first element of an array of this integer type.
    Element(String),
    /// A part of this struct: statements that put the number into a copy of it, `changed`.
    Part(String, String),
}

/// The whole program, and the number of places in it.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let mut calls = String::new();
    let mut table = String::new();
    let mut count = 0;
    for function in &header.functions {
        for place in places(header, function) {
            write_place(&mut calls, header, function, &place, count)
                .map_err(|problem| format!("{}: {problem}", function.name))?;
            write_line(&mut table, header, function, &place, count);
            count += 1;
        }
    }
    let is_known =
        |name: &str| name.is_empty() || header.functions.iter().any(|one| one.name == name);
    if let Some(name) = functions_in_tables().find(|name| !is_known(name)) {
        return Err(format!("{name} is in a table and not in the header"));
    }
    let program = with_shared(FRAME)
        .replace("/* CALLS */\n", &calls)
        .replace("    /* CONSTANTS */\n", &foreign_constants(header))
        .replace("    /* TABLE */\n", &table);
    Ok((program, count))
}

fn is_integer(kind: &str) -> bool {
    matches!(
        kind,
        "int32_t" | "int64_t" | "uint32_t" | "uint64_t" | "size_t"
    )
}

/// The enum that a type is, if every number that is none of its constants is refused. A callback
/// may return any status.
fn checked_enum(header: &Header, kind: &str) -> Option<String> {
    let is_enum = header.enums.contains_key(kind) && kind != "umbo_status";
    is_enum.then(|| kind.to_owned())
}

/// Lines of the table of constants: for each enum the last one, which is not 0.
fn foreign_constants(header: &Header) -> String {
    let enums = header
        .enums
        .iter()
        .filter(|(name, _)| *name != "umbo_status");
    let lines = enums.filter_map(|(name, constants)| {
        let constant = &constants.last()?.name;
        Some(format!("    {{\"{constant}\", \"{name}\", {constant}}},\n"))
    });
    lines.collect()
}

/// An expression of an integer type for the number.
fn converted(kind: &str) -> String {
    match kind {
        _ if kind.starts_with("umbo_") => format!("({kind})narrow(extreme)"),
        "int32_t" | "uint32_t" => format!("({kind})narrow(extreme)"),
        _ => format!("({kind})extreme"),
    }
}

/// The type that a parameter leads to, if that goes in.
fn pointee(kind: &str) -> Option<&str> {
    kind.strip_prefix("const ")?.strip_suffix(" *")
}

/// All places of a function, in the order of its parameters.
fn places(header: &Header, function: &Function) -> Vec<Place> {
    let mut found = Vec::new();
    for (parameter, Parameter { name, kind, .. }) in function.parameters.iter().enumerate() {
        let mut add = |name: &str, kind, of_enum| {
            found.push(Place {
                name: name.to_owned(),
                parameter,
                kind,
                of_enum,
            })
        };
        let of_enum = checked_enum(header, kind);
        if is_integer(kind) || of_enum.is_some() {
            add(name, Kind::Number(kind.clone()), of_enum);
            continue;
        }
        let lent = kind
            .strip_suffix(" *")
            .filter(|name| name.starts_with("DLManagedTensor"));
        let Some(plain) = pointee(kind).or(lent) else {
            continue;
        };
        if matches!(plain, "int64_t" | "size_t") {
            add(name, Kind::Element(plain.to_owned()), None);
        }
        let plain = plain.strip_suffix(" * const").unwrap_or(plain);
        for (_, name, statements) in PARTS.iter().filter(|(known, ..)| *known == plain) {
            let of_enum = (*name == "type").then(|| "umbo_device_type".to_owned());
            let part = Kind::Part(plain.to_owned(), (*statements).to_owned());
            add(name, part, of_enum);
        }
        for field in header.fields.get(plain).into_iter().flatten() {
            if let Some(statement) = put_into(header, plain, field) {
                let part = Kind::Part(plain.to_owned(), statement);
                add(&field.name, part, checked_enum(header, &field.kind));
            }
        }
    }
    found
}

/// Statements that put the number into a field of a struct `changed`, if it takes one. The arrays
/// of the struct are as long as the number says.
fn put_into(header: &Header, of_struct: &str, field: &Parameter) -> Option<String> {
    let Parameter { name, kind, .. } = field;
    let mut statements: String = FIELDS
        .iter()
        .filter(|(known, place, _)| *known == of_struct && *place == *name)
        .map(|(.., statement)| format!("{statement} "))
        .collect();
    if name == "struct_size" {
        return None;
    }
    if is_integer(kind) {
        for (at, array) in arrays_of(header, of_struct, name).enumerate() {
            let first = if array.kind == "const char * const *" {
                "first_text"
            } else {
                "sizes"
            };
            write!(
                statements,
                "changed.{} = LENGTHENED({at}, {first}); ",
                array.name
            )
            .expect("a string takes it");
        }
        write!(statements, "changed.{name} = {};", converted(kind)).expect("a string takes it");
        return Some(statements);
    }
    if kind == "double" {
        write!(statements, "changed.{name} = real(extreme);").expect("a string takes it");
        return Some(statements);
    }
    if checked_enum(header, kind).is_some() {
        write!(statements, "changed.{name} = {};", converted(kind)).expect("a string takes it");
        return Some(statements);
    }
    pointee(kind).filter(|element| matches!(*element, "int64_t" | "size_t"))?;
    write!(statements, "changed.{name} = ({kind})&extreme;").expect("a string takes it");
    Some(statements)
}

/// The arrays of a struct that are as long as this field says.
fn arrays_of<'a>(
    header: &'a Header,
    of_struct: &str,
    field: &str,
) -> impl Iterator<Item = &'a Parameter> {
    let is_count = field.ends_with("count") || field == "ndim";
    let fields = header.fields.get(of_struct).filter(|_| is_count);
    fields
        .into_iter()
        .flatten()
        .filter(|other| is_array(&other.kind))
}

/// Whether a parameter or field of this type is an array that goes in.
fn is_array(kind: &str) -> bool {
    kind.ends_with(" * const *")
        || pointee(kind).is_some_and(|element| {
            is_integer(element) || matches!(element, "float" | "double" | "umbo_view")
        })
}

fn write_place(
    calls: &mut String,
    header: &Header,
    function: &Function,
    place: &Place,
    serial: usize,
) -> Result<(), String> {
    let mut prepared = prepared(header, function)?;
    for (argument, parameter) in prepared.arguments.iter_mut().zip(&function.parameters) {
        let recipe = RECIPES.iter().find(|(name, at, known, _)| {
            *name == function.name && *at == place.name && *known == parameter.name
        });
        if let Some((.., expression)) = recipe {
            *argument = (*expression).to_owned();
        }
    }
    let changes = put_extreme(&mut prepared.arguments, function, place);
    let Prepared {
        locals,
        prelude,
        arguments,
        cleanup,
    } = prepared;
    let call = format!("{}({})", function.name, arguments.join(", "));
    let call = match function.returns.as_str() {
        "umbo_status" => format!("status = {call};"),
        _ => format!("(void){call};"),
    };
    let after = uses_of_what_is_made(function);
    let start = format!("static void try_{serial}(struct objects good, int64_t extreme) {{");
    write!(
        calls,
        "{start}\n    umbo_status status = UMBO_OK;\n{locals}{prelude}{changes}    {call}\n    \
         note(status);\n{after}{cleanup}    (void)good;\n}}\n\n"
    )
    .expect("a string takes it");
    Ok(())
}

/// Changes the arguments so that the number stands in its place. Returns the statements that they
/// need before the call.
fn put_extreme(arguments: &mut [String], function: &Function, place: &Place) -> String {
    let at = place.parameter;
    match &place.kind {
        Kind::Number(kind) => {
            let parameters = arguments.iter_mut().zip(&function.parameters);
            let arrays = parameters
                .filter(|(argument, parameter)| is_array(&parameter.kind) && *argument != "NULL");
            let is_count = place.of_enum.is_none();
            for (room, (argument, _)) in arrays.filter(|_| is_count).enumerate() {
                *argument = format!("LENGTHENED({room}, {argument})");
            }
            arguments[at] = converted(kind);
            String::new()
        }
        Kind::Element(kind) => {
            arguments[at] = "first".to_owned();
            format!("    const {kind} first[8] = {{{}}};\n", converted(kind))
        }
        Kind::Part(of_struct, statements) => {
            let tag = match of_struct.starts_with("DL") {
                true => "struct ",
                false => "",
            };
            let given = std::mem::replace(&mut arguments[at], "&changed".to_owned());
            if !function.parameters[at].kind.ends_with("* const *") {
                return format!("    {tag}{of_struct} changed = *{given};\n    {statements}\n");
            }
            arguments[at] = "&there".to_owned();
            format!(
                "    {tag}{of_struct} changed = **{given};\n    const {of_struct} *const there = \
                 &changed;\n    {statements}\n"
            )
        }
    }
}

/// Statements that use what a call has made, or changed, if it has succeeded.
fn uses_of_what_is_made(function: &Function) -> String {
    let mut after = String::new();
    for Parameter { name, kind, .. } in &function.parameters {
        let made = kind
            .strip_prefix("umbo_")
            .and_then(|rest| rest.strip_suffix(" * *"));
        let is_read = !UNREAD.contains(&&*function.name);
        if let Some(made) = made.filter(|made| is_read && USES.contains(made)) {
            writeln!(
                after,
                "    if (status == UMBO_OK) use_{made}(&good, {name});"
            )
            .expect("a string takes it");
        }
    }
    for (_, statement) in AFTER.iter().filter(|(name, _)| *name == function.name) {
        writeln!(after, "    if (status == UMBO_OK) {statement}").expect("a string takes it");
    }
    after
}

/// A line of the table of places.
fn write_line(
    table: &mut String,
    header: &Header,
    function: &Function,
    place: &Place,
    serial: usize,
) {
    let of_place =
        |name: &str, at: &str| name == function.name && (at.is_empty() || at == place.name);
    let answer = OTHER_ANSWERS
        .iter()
        .find(|(name, at, _)| of_place(name, at));
    let answer = answer.map_or("UMBO_OK", |(.., status)| *status);
    let by_arrays = u8::from(BY_ARRAYS.iter().any(|(name, at)| of_place(name, at)));
    let takes = |handle: &str| {
        let handle = format!("umbo_{handle} *");
        let mut kinds = function.parameters.iter().map(|parameter| &parameter.kind);
        kinds.any(|kind| kind.trim_start_matches("const ") == handle)
    };
    let context = if takes("replica_context") {
        "ON_A_REPLICA"
    } else if takes("variable_request") {
        "IN_A_CREATOR"
    } else {
        "OUTSIDE"
    };
    writeln!(
        table,
        "    {{\"{}\", \"{}\", \"{}\", try_{serial}, {context}, {by_arrays}, {answer}, \
         \"{}\"}},",
        function.name,
        place.name,
        names_of(header, function, place).join("|"),
        place.of_enum.as_deref().unwrap_or_default()
    )
    .expect("a string takes it");
}

/// What a message may call a place: its name, and those of the arrays that are as long as it says.
fn names_of(header: &Header, function: &Function, place: &Place) -> Vec<String> {
    let mut names = vec![place.name.as_str()];
    match &place.kind {
        Kind::Number(_) => {
            let parameters = function.parameters.iter();
            let arrays = parameters.filter(|parameter| is_array(&parameter.kind));
            names.extend(arrays.map(|array| array.name.as_str()));
        }
        Kind::Element(_) => {}
        Kind::Part(of_struct, _) => {
            let arrays = arrays_of(header, of_struct, &place.name);
            names.extend(arrays.map(|array| array.name.as_str()));
            // A part of what another library, or a view, describes has no name of ours.
            if PARTS.iter().any(|(known, ..)| known == of_struct) {
                names.push(&function.parameters[place.parameter].name);
            }
        }
    }
    let is_of_place =
        |name: &str, at: &str| (name.is_empty() || name == function.name) && at == place.name;
    let others = OTHER_NAMES
        .iter()
        .filter(|(name, at, _)| is_of_place(name, at));
    // Options are fields, which messages call by the name that the program writes.
    let parameter = &function.parameters[place.parameter];
    let of_options = matches!(place.kind, Kind::Part(..)) && parameter.name.ends_with("options");
    let prefix = match of_options {
        true => format!("{}.", parameter.name),
        false => String::new(),
    };
    let mut names: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
    names.extend(others.map(|(.., words)| (*words).to_owned()));
    names
}
