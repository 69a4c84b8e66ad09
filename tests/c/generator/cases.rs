//! Writes a C program that calls each public function once for each pointer parameter, with `NULL`
//! there and good arguments everywhere else; and for each struct that begins with its defaults,
//! with one that has not been begun so.
//!
//! Good arguments come from the tables below, by type and name. A type that is missing in them
//! fails the generation, so that a new function cannot go untested by accident.

use std::fmt::Write;

use crate::header::{Function, Header, Parameter};

/// What the program makes once and passes wherever its type fits.
pub const HANDLES: [&str; 21] = [
    "tensor",
    "value",
    "strategy",
    "variable",
    "dataset",
    "iterator",
    "gradients",
    "optimizer",
    "cancellation",
    "distributed_dataset",
    "element_spec",
    "equivalence",
    "cluster_resolver",
    "scope",
    "replica_context",
    "variable_request",
    "metrics",
    "checkpoint",
    "checkpoint_manager",
    "communicator",
    "trainer",
];

/// Numbers that are not 1.
const NUMBERS: [(&str, &str); 10] = [
    ("axis", "0"),
    ("index", "0"),
    ("replica_id", "0"),
    ("start", "0"),
    ("physical_ordinal", "0"),
    ("dtype", "UMBO_DTYPE_FLOAT32"),
    ("level", "UMBO_LOG_ERROR"),
    ("status", "UMBO_STATUS_ABORTED"),
    ("bytes", "sizeof(numbers)"),
    ("root", "0"),
];

/// Fields that a struct needs beside its size.
const FIELDS: [(&str, &str); 7] = [
    ("umbo_parameters", "weights = trained"),
    ("umbo_parameters", "count = 1"),
    ("umbo_destination", "device = \"CPU:0\""),
    ("umbo_generator", "next = good_generator_next_fn"),
    ("umbo_input_context", "replica_count = 1"),
    (
        "umbo_communicator_functions",
        "all_to_all = good_communicator_all_to_all_fn",
    ),
    (
        "umbo_communicator_functions",
        "all_gather = good_communicator_all_gather_fn",
    ),
];

/// What the programs pass to all functions, and where it stands in them.
const SHARED: &str = include_str!("shared.c");
const SHARED_PLACE: &str = "/* SHARED */\n\n";

/// A program with what all of them share: a field for each handle, and what they pass.
pub fn with_shared(frame: &str) -> String {
    let field = |name: &&str| format!("    umbo_{name} *{name};\n");
    let fields: String = HANDLES.iter().map(field).collect();
    frame
        .replace("    /* HANDLES */\n", &fields)
        .replace(SHARED_PLACE, SHARED)
}

/// The whole program, and the number of cases in it.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let mut cases = Vec::new();
    let mut body = String::new();
    for function in &header.functions {
        for (position, parameter) in function.parameters.iter().enumerate() {
            if parameter.kind.ends_with('*') || header.callbacks.contains(&parameter.kind) {
                let name = format!("null_{}_{}", function.name, parameter.name);
                write_case(&mut body, header, function, position, &name)
                    .map_err(|problem| format!("{}: {problem}", function.name))?;
                cases.push((name, function));
            }
            if let Some(initial) = begun(header, parameter) {
                let name = format!("unset_{}_{}", function.name, parameter.name);
                write_unset(&mut body, header, (function, parameter), (&name, &initial))
                    .map_err(|problem| format!("{}: {problem}", function.name))?;
                cases.push((name, function));
            }
        }
    }
    let mut outside = String::new();
    let mut inside = String::new();
    let mut creating = String::new();
    for (name, function) in &cases {
        let takes = |handle| {
            function
                .parameters
                .iter()
                .any(|parameter| is_handle(&parameter.kind, handle))
        };
        let calls = if takes("replica_context") {
            &mut inside
        } else if takes("variable_request") {
            &mut creating
        } else {
            &mut outside
        };
        writeln!(calls, "    {name}();").expect("a string takes it");
    }
    let program = with_shared(include_str!("frame.c"))
        .replace("/* CASES */\n", &body)
        .replace("    /* OUTSIDE */\n", &outside)
        .replace("    /* INSIDE */\n", &inside)
        .replace("    /* CREATING */\n", &creating);
    Ok((program, cases.len()))
}

/// Whether a type is this handle, which lives only as long as a callback.
fn is_handle(kind: &str, handle: &str) -> bool {
    kind.trim_start_matches("const ")
        .strip_prefix("umbo_")
        .and_then(|rest| rest.strip_suffix(" *"))
        == Some(handle)
}

fn write_case(
    body: &mut String,
    header: &Header,
    function: &Function,
    null: usize,
    case: &str,
) -> Result<(), String> {
    let mut locals = String::new();
    let mut cleanup = String::new();
    let mut arguments = Vec::new();
    for (position, parameter) in function.parameters.iter().enumerate() {
        if position == null {
            arguments.push("NULL".to_owned());
        } else {
            arguments.push(argument(header, parameter, &mut locals, &mut cleanup)?);
        }
    }
    let call = format!("{}({})", function.name, arguments.join(", "));
    let Parameter { name, nullable, .. } = &function.parameters[null];
    let check = match (function.returns.as_str(), *nullable) {
        ("umbo_status", true) => {
            format!(
                "allowed({call},\n            \"{}\", \"{name}\");",
                function.name
            )
        }
        ("umbo_status", false) => {
            format!(
                "refused({call},\n            \"{}\", \"{name}\");",
                function.exported()
            )
        }
        ("void", _) => format!("{call};"),
        _ => format!("(void){call};"),
    };
    // A message that is left from before must not pass for this call's.
    let clear = "    umbo_clear_last_error();";
    writeln!(
        body,
        "static void {case}(void) {{\n{locals}{clear}\n    {check}\n{cleanup}}}\n"
    )
    .expect("a string takes it");
    Ok(())
}

/// The macro that the struct of a parameter starts from, if it is one that does.
fn begun(header: &Header, parameter: &Parameter) -> Option<String> {
    let pointee = parameter.kind.strip_suffix(" *")?;
    let plain = pointee.strip_prefix("const ").unwrap_or(pointee);
    let is_sized = header.sized_structs.contains(plain);
    is_sized.then(|| initial(header, plain))?
}

/// The function that leaves the last error as it is, if it fails.
const WITHOUT_MESSAGE: &str = "umbo_last_error_at";

/// Calls a function with a struct that does not have what the macro `initial` puts into its first
/// field.
fn write_unset(
    body: &mut String,
    header: &Header,
    (function, parameter): (&Function, &Parameter),
    (case, initial): (&str, &str),
) -> Result<(), String> {
    let mut locals = String::new();
    let mut cleanup = String::new();
    let arguments = function
        .parameters
        .iter()
        .map(|parameter| argument(header, parameter, &mut locals, &mut cleanup))
        .collect::<Result<Vec<_>, _>>()?
        .join(", ");
    let exported = &function.name;
    let name = &parameter.name;
    let said = match exported.as_str() {
        WITHOUT_MESSAGE => "NULL".to_owned(),
        _ => format!("\"{initial}\""),
    };
    writeln!(
        body,
        "static void {case}(void) {{\n{locals}    const size_t sizes_unset[] = \
         {{sizeof({name}), 0, 3, SIZE_MAX}};\n    int way;\n    for (way = 0; way < \
         COUNT_OF(sizes_unset); way++) {{\n        umbo_clear_last_error();\n        \
         {name}.struct_size = sizes_unset[way];\n        unset({exported}({arguments}), \
         \"{exported}\", \"{name}: struct_size is \", {said});\n    }}\n{cleanup}}}\n"
    )
    .expect("a string takes it");
    Ok(())
}

/// Declares a struct that is good to go in, or out.
fn declare_struct(header: &Header, kind: &str, name: &str, local: &mut impl FnMut(String)) {
    match initial(header, kind) {
        Some(initial) => local(format!("{kind} {name} = {initial};")),
        None => {
            local(format!("{kind} {name};"));
            local(format!("memset(&{name}, 0, sizeof({name}));"));
            if header.sized_structs.contains(kind) {
                local(format!("{name}.struct_size = UMBO_STRUCT_SIZE({name});"));
            }
        }
    }
    for (_, field) in FIELDS.iter().filter(|(known, _)| *known == kind) {
        local(format!("{name}.{field};"));
    }
}

/// The macro that a struct starts from, if it has one.
pub fn initial(header: &Header, kind: &str) -> Option<String> {
    let macro_name = format!("{}_INIT", kind.to_uppercase());
    header.macros.contains(&macro_name).then_some(macro_name)
}

/// An expression for a good argument; what it needs is declared in `locals`, and what it makes is
/// given up in `cleanup`. Objects are the members of a struct called `good`.
pub fn argument(
    header: &Header,
    parameter: &Parameter,
    locals: &mut String,
    cleanup: &mut String,
) -> Result<String, String> {
    let Parameter {
        name,
        kind,
        replaced,
        ..
    } = parameter;
    let missing = || format!("the table has no argument for '{kind} {name}'");
    let mut local = |declaration: String| {
        writeln!(locals, "    {declaration}").expect("a string takes it");
    };
    if header.callbacks.contains(kind) {
        return Ok(match kind.as_str() {
            "umbo_destroy_fn" => "NULL".to_owned(),
            callback => format!("good_{}", callback.trim_start_matches("umbo_")),
        });
    }
    let Some(pointee) = kind.strip_suffix(" *") else {
        let number = NUMBERS.iter().find(|(known, _)| known == name);
        let is_number = header.integers.contains_key(kind)
            || matches!(
                kind.as_str(),
                "int32_t" | "int64_t" | "uint32_t" | "uint64_t" | "size_t" | "double"
            );
        return match number {
            _ if !is_number => Err(missing()),
            Some((_, number)) => Ok((*number).to_owned()),
            None => {
                let mut constants = header.enums.get(kind).into_iter().flatten();
                let constant = constants.find(|constant| !constant.is_zero);
                Ok(constant.map_or("1".to_owned(), |constant| constant.name.clone()))
            }
        };
    };
    match pointee {
        "const char" => {
            let device = matches!(name.as_str(), "device" | "defaults");
            return Ok(if device { "\"CPU:0\"" } else { "\"x\"" }.to_owned());
        }
        "char" => {
            local(format!("char {name}[2048];"));
            return Ok(name.clone());
        }
        "const void" | "void" => {
            return Ok(if name == "user_data" || name == "payload" {
                "NULL"
            } else {
                "numbers"
            }
            .to_owned());
        }
        "const float" | "float" => return Ok("numbers".to_owned()),
        "const double" => {
            local(format!("const double {name} = 1;"));
            return Ok(format!("&{name}"));
        }
        "float *" => {
            local(format!("float *{name} = NULL;"));
            return Ok(format!("&{name}"));
        }
        "void *" => {
            local(format!("void *{name} = NULL;"));
            return Ok(format!("&{name}"));
        }
        "const char *" => {
            local(format!("const char *{name} = NULL;"));
            return Ok(format!("&{name}"));
        }
        "DLManagedTensor" => return Ok("&others_legacy_tensor".to_owned()),
        "DLManagedTensorVersioned" => return Ok("&others_tensor".to_owned()),
        "DLManagedTensor *" | "DLManagedTensorVersioned *" => {
            local(format!("{pointee}{name} = NULL;"));
            writeln!(cleanup, "    if ({name} != NULL) {name}->deleter({name});")
                .expect("a string takes it");
            return Ok(format!("&{name}"));
        }
        "const char * const" => return Ok("texts".to_owned()),
        "const int64_t" => return Ok("sizes".to_owned()),
        "const size_t" => return Ok("(const size_t *)sizes".to_owned()),
        "const int32_t" => return Ok("axes".to_owned()),
        _ => {}
    }
    let (read_only, plain) = match pointee.strip_prefix("const ") {
        Some(plain) => (true, plain),
        None => (false, pointee),
    };
    if let Some(handle) = plain.strip_prefix("umbo_") {
        if HANDLES.contains(&handle) {
            return Ok(format!("good.{handle}"));
        }
        if let Some(item) = handle.strip_suffix(" * const") {
            let constness = if read_only { "const " } else { "" };
            if HANDLES.contains(&item) {
                return Ok(format!("({constness}umbo_{item} *const *)&good.{item}"));
            }
            let item = format!("umbo_{item}");
            if !header.structs.contains(&item) {
                return Err(missing());
            }
            declare_struct(header, &item, &format!("one_{name}"), &mut local);
            local(format!("const {item} *{name} = &one_{name};"));
            return Ok(format!("&{name}"));
        }
        if let Some(made) = handle.strip_suffix(" *").filter(|_| !read_only) {
            if !HANDLES.contains(&made) {
                return Err(missing());
            }
            local(format!("umbo_{made} *{name} = NULL;"));
            if *replaced {
                local(format!(
                    "(void)(umbo_{made}_retain(good.{made}, &{name}) == UMBO_OK);"
                ));
            }
            match made {
                "replica_context" => {}
                "scope" => writeln!(
                    cleanup,
                    "    if ({name} != NULL) umbo_ignore(umbo_scope_exit({name}));"
                )
                .expect("a string takes it"),
                _ => writeln!(cleanup, "    umbo_{made}_release({name});")
                    .expect("a string takes it"),
            }
            return Ok(format!("&{name}"));
        }
    }
    if header.structs.contains(plain) {
        declare_struct(header, plain, name, &mut local);
        return Ok(format!("&{name}"));
    }
    let number = header.integers.contains_key(plain)
        || matches!(
            plain,
            "int32_t" | "int64_t" | "uint64_t" | "size_t" | "double"
        );
    if number && !read_only {
        if name == "shape" {
            local(format!("{plain} {name}[UMBO_MAX_NDIM];"));
            return Ok(name.clone());
        }
        local(format!("{plain} {name} = 0;"));
        return Ok(format!("&{name}"));
    }
    Err(missing())
}
