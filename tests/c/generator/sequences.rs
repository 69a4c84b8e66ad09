//! Writes a C program that makes random calls of all public functions. What is drawn and what must
//! hold afterwards is in the files of `sequences`; which function takes what is made here, from the
//! header.

use std::fmt::Write;

use crate::cases::{HANDLES, initial};
use crate::header::{Function, Header, Parameter};

/// Numbers that are not just any: function or struct, parameter or field, expression. An empty name
/// stands for all. What they exclude is either beside the contract (a count of more than there is)
/// or rightly without an end (a batch of all elements of a dataset without end).
const NUMBERS: &[(&str, &str, &str)] = &[
    ("", "count", "small(f)"),
    ("", "capacity", "room(f)"),
    ("", "bytes", "room(f)"),
    ("", "ndim", "ndim(f)"),
    ("", "rank", "ndim(f)"),
    ("", "struct_size", "0"),
    ("umbo_map_options", "parallel_call_count", "small(f)"),
    ("", "prefetch_count", "small(f)"),
    ("", "buffer_capacity", "small(f)"),
    ("", "depth", "small(f)"),
    ("umbo_files_options", "open_file_count", "small(f)"),
    ("", "example_count", "small(f)"),
    ("umbo_dataset_batch", "element_count", "small(f)"),
    ("umbo_dataset_padded_batch", "element_count", "small(f)"),
    ("umbo_dataset_skip", "count", "small(f)"),
    // A dataset of 2^40 elements is shuffled as a whole, or looked through, for ever.
    ("umbo_dataset_repeat", "count", "small(f)"),
    ("umbo_dataset_from_range", "start", "small(f)"),
    ("umbo_dataset_from_range", "stop", "small(f)"),
    ("", "axis_count", "small(f)"),
    ("", "state_count", "small(f)"),
    ("", "compute_device_count", "small(f)"),
    ("", "cpu_replicas", "small(f)"),
    ("", "replicas_in_sync", "small(f)"),
    ("", "physical_ordinal", "small(f)"),
    ("", "dtype", "UMBO_DTYPE_FLOAT16 + below(f, 14)"),
    ("", "timeout_seconds", "deadline(f)"),
    ("", "rows", "small(f)"),
    ("", "row_count", "small(f)"),
    ("", "batch_size", "small(f)"),
    ("umbo_trainer_options", "replicas", "small(f)"),
    // INTERNAL is what no call may return.
    ("umbo_set_last_error", "status", "narrow(f)"),
    ("umbo_metric_options", "bins", "small(f)"),
    ("umbo_metric_options", "classes", "small(f)"),
    ("umbo_train_epoch_options", "max_steps", "below(f, 4)"),
    // Arrays of counts are as long as there are ranks.
    (
        "umbo_communicator_functions",
        "rank_count",
        "1 + below(f, 4)",
    ),
    ("umbo_communicator_functions", "flags", "below(f, 5)"),
];

/// The program without what the header says.
const FRAME: &str = concat!(
    include_str!("sequences/frame.c"),
    include_str!("sequences/model.c"),
    include_str!("sequences/callbacks.c"),
    include_str!("sequences/calls.c"),
);

/// The whole program, and the number of functions in it.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let frame = FRAME;
    for callback in &header.callbacks {
        let name = callback.trim_start_matches("umbo_");
        if !frame.contains(&format!(" drawn_{name}(")) {
            return Err(format!(
                "sequences/callbacks.c has no callback of type {callback}"
            ));
        }
    }
    let mut calls = String::new();
    let mut table = String::new();
    write_structs(&mut calls, header)?;
    for function in &header.functions {
        write_call(&mut calls, header, function)
            .map_err(|problem| format!("{}: {problem}", function.name))?;
        // Calls that run callbacks are where things meet, so they are drawn more often.
        let calls_back = function.name.contains("iterator")
            || function.parameters.iter().any(|parameter| {
                header.callbacks.contains(&parameter.kind) && parameter.kind != "umbo_destroy_fn"
            });
        writeln!(
            table,
            "    {{\"{0}\", draw_{0}, {1}}},",
            function.name,
            u8::from(calls_back)
        )
        .expect("a string takes it");
    }
    let program = frame
        .replace("/* CALLS */\n", &calls)
        .replace("    /* TABLE */\n", &table);
    Ok((program, header.functions.len()))
}

/// The kind of a handle type, for the model.
fn kind_of(plain: &str) -> Option<String> {
    let handle = plain.strip_prefix("umbo_")?;
    HANDLES
        .contains(&handle)
        .then(|| format!("UMBO_HANDLE_{}", handle.to_uppercase()))
}

fn is_integer(header: &Header, kind: &str) -> bool {
    header.integers.contains_key(kind)
        || matches!(
            kind,
            "int32_t" | "int64_t" | "uint32_t" | "uint64_t" | "size_t"
        )
}

/// A number for a parameter of a function or a field of a struct.
fn number(header: &Header, function: &str, name: &str, kind: &str) -> Option<String> {
    let known = |exact: &str| {
        NUMBERS
            .iter()
            .find(|(place, number, _)| *place == exact && *number == name)
    };
    if let Some((_, _, expression)) = known(function).or_else(|| known("")) {
        return Some(format!("({kind})({expression})"));
    }
    match kind {
        _ if header.enums.contains_key(kind) => {
            let constants = header.enums[kind].iter().map(|one| one.name.as_str());
            let list = constants.collect::<Vec<_>>().join(", ");
            let count = header.enums[kind].len();
            Some(format!(
                "({kind})constant(f, (const int32_t[]){{{list}}}, {count})"
            ))
        }
        "double" => Some("real(f)".to_owned()),
        "int64_t" | "uint64_t" | "size_t" => Some(format!("({kind})wide(f)")),
        _ if is_integer(header, kind) => Some(format!("({kind})narrow(f)")),
        _ => None,
    }
}

/// An input that is drawn in one expression, if it is one.
fn input(header: &Header, function: &str, parameter: &Parameter) -> Option<String> {
    let Parameter { name, kind, .. } = parameter;
    if header.callbacks.contains(kind) {
        let callback = kind.trim_start_matches("umbo_");
        return Some(if kind == "umbo_destroy_fn" {
            "token != NULL ? drawn_destroy_fn : NULL".to_owned()
        } else {
            format!("one_in(f, 12) ? NULL : drawn_{callback}")
        });
    }
    let Some(pointee) = kind.strip_suffix(" *") else {
        return number(header, function, name, kind);
    };
    match pointee {
        "const char" if name == "position" => return Some("place(f)".to_owned()),
        "const char" if matches!(name.as_str(), "path" | "folder") => {
            return Some("path(f)".to_owned());
        }
        "const char" => return Some("text(f)".to_owned()),
        "const char * const" => return Some("texts(f)".to_owned()),
        "const int64_t" if name.contains("strides") => return Some("strides(f)".to_owned()),
        "const int64_t" => return Some("sizes(f)".to_owned()),
        "const size_t" => return Some("(const size_t *)sizes(f)".to_owned()),
        "const double" => return Some("reals(f)".to_owned()),
        "const int32_t" => return Some("axes(f)".to_owned()),
        "const void" | "void" if matches!(name.as_str(), "user_data" | "payload") => {
            return Some("token".to_owned());
        }
        "void" if name.ends_with("user_data") => return Some("NULL".to_owned()),
        // A driver takes what it is given for its own.
        "void" if matches!(name.as_str(), "stream" | "pool") => return Some("NULL".to_owned()),
        "const void" | "void" | "const float" | "float" | "uint16_t" => {
            return Some("block(f)".to_owned());
        }
        // What a callback gets, and no other call may have.
        "const float * const"
        | "float * const"
        | "void * const"
        | "const uint16_t * const"
        | "const umbo_row_places" => {
            return Some("NULL".to_owned());
        }
        "DLManagedTensorVersioned" => return Some("others_tensor(f)".to_owned()),
        "DLManagedTensor" => return Some("others_legacy_tensor(f)".to_owned()),
        _ => {}
    }
    let plain = pointee.trim_start_matches("const ");
    if let Some(kind) = kind_of(plain) {
        return Some(format!("pick(f, {kind})"));
    }
    let item = plain.strip_suffix(" * const").and_then(kind_of)?;
    Some(format!("(void *)picks(f, {item})"))
}

/// A function for each struct that goes in, which draws its fields.
fn write_structs(calls: &mut String, header: &Header) -> Result<(), String> {
    for name in &header.structs {
        let goes_in = header.functions.iter().any(|function| {
            function.parameters.iter().any(|parameter| {
                parameter.kind == format!("const {name} *")
                    || parameter.kind == format!("const {name} * const *")
            })
        });
        if !goes_in {
            continue;
        }
        writeln!(
            calls,
            "static {name} *draw_struct_{name}(struct fuzzer *f, {name} *all, void *token) {{\n    \
             int index;\n    (void)token;\n    \
             for (index = 0; index < MOST_ITEMS; index++) {{\n        \
             {name} *const it = &all[index];"
        )
        .expect("a string takes it");
        match initial(header, name) {
            Some(initial) => {
                writeln!(
                    calls,
                    "        const {name} start = {initial};\n        *it = start;"
                )
                .expect("a string takes it");
            }
            None => calls.push_str("        memset(it, 0, sizeof(*it));\n"),
        }
        if header.sized_structs.contains(name) {
            calls.push_str("        it->struct_size = size_of_struct(f, sizeof(*it));\n");
        }
        let drawn_field_by_field = name != "umbo_view";
        if !drawn_field_by_field {
            // What it says of memory has to be so.
            calls.push_str("        *it = view(f);\n");
        }
        let fields = header.fields.get(name).filter(|_| drawn_field_by_field);
        for field in fields.into_iter().flatten() {
            // Structs in it stay zero.
            if field.name == "struct_size" || header.structs.contains(&field.kind) {
                continue;
            }
            let drawn = if field.kind == "umbo_destroy_fn" {
                "NULL".to_owned()
            } else {
                input(header, name, field).ok_or_else(|| {
                    format!("{name}: no value for '{} {}'", field.kind, field.name)
                })?
            };
            // What is not a number is left out less often: without it the struct is of little use.
            // An epoch over an endless dataset has to end.
            let chance = if field.name == "max_steps" {
                "1"
            } else if number(header, name, &field.name, &field.kind).is_some() {
                "one_in(f, 3)"
            } else {
                "!one_in(f, 6)"
            };
            writeln!(calls, "        if ({chance}) it->{} = {drawn};", field.name)
                .expect("a string takes it");
        }
        calls.push_str("    }\n    return one_in(f, 4) ? NULL : all;\n}\n\n");
    }
    Ok(())
}

fn write_call(calls: &mut String, header: &Header, function: &Function) -> Result<(), String> {
    let name = &function.name;
    let mut locals = String::new();
    let mut after = String::new();
    let mut arguments = Vec::new();
    let mut has_token = false;
    for (position, parameter) in function.parameters.iter().enumerate() {
        let Parameter { name, kind, .. } = parameter;
        let missing = || format!("nothing is known to draw for '{kind} {name}'");
        has_token |= kind == "umbo_destroy_fn";
        if let Some(drawn) = input(header, &function.name, parameter) {
            let declared = if header.callbacks.contains(kind) || kind.ends_with('*') {
                kind.clone()
            } else {
                format!("const {kind}")
            };
            writeln!(locals, "    {declared} a{position} = {drawn};").expect("a string takes it");
            arguments.push(format!("a{position}"));
            continue;
        }
        let pointee = kind.strip_suffix(" *").ok_or_else(missing)?;
        if let Some(plain) = pointee.strip_prefix("const ")
            && header.structs.contains(plain)
        {
            writeln!(
                locals,
                "    {plain} s{position}[MOST_ITEMS];\n    const {plain} *a{position} = \
                 draw_struct_{plain}(f, s{position}, NULL);"
            )
            .expect("a string takes it");
            arguments.push(format!("a{position}"));
            continue;
        }
        if let Some(plain) = pointee
            .strip_prefix("const ")
            .and_then(|it| it.strip_suffix(" * const"))
            && header.structs.contains(plain)
        {
            writeln!(
                locals,
                "    {plain} s{position}[MOST_ITEMS];\n    const {plain} \
                 *p{position}[MOST_ITEMS];\n    const {plain} *a{position} = \
                 draw_struct_{plain}(f, s{position}, NULL);"
            )
            .expect("a string takes it");
            writeln!(
                locals,
                "    PREPARE for (index = 0; index < MOST_ITEMS; index++) p{position}[index] = \
                 one_in(f, 20) ? NULL : &s{position}[index];"
            )
            .expect("a string takes it");
            arguments.push(format!("a{position} == NULL ? NULL : p{position}"));
            continue;
        }
        // What is left goes out, into an array that is large enough for whatever it is.
        let plain = pointee.trim_end_matches(" *");
        let known = header.structs.contains(pointee)
            || kind_of(plain).is_some()
            || is_integer(header, pointee)
            || matches!(
                pointee,
                "double" | "char" | "void *" | "const char *" | "float *"
            )
            || pointee.starts_with("DLManagedTensor");
        if !known {
            return Err(missing());
        }
        writeln!(locals, "    {pointee} o{position}[MOST_ROOM];").expect("a string takes it");
        writeln!(after, "    (void)o{position};").expect("a string takes it");
        let mut prepare = format!("memset(o{position}, 0, sizeof(o{position}));");
        if header.sized_structs.contains(pointee) {
            prepare.push_str(&format!(
                " o{position}[0].struct_size = size_of_struct(f, sizeof(o{position}[0]));"
            ));
        }
        if parameter.replaced {
            // A handle of its own, which the call may replace; either way one is left.
            let made = kind_of(plain).ok_or_else(missing)?;
            prepare.push_str(&format!(
                " umbo_ignore({plain}_retain(pick(f, {made}), &o{position}[0]));"
            ));
            writeln!(
                after,
                "    keep(f, {made}, UMBO_OK, o{position}[0]);\n    o{position}[0] = NULL;"
            )
            .expect("a string takes it");
        }
        writeln!(locals, "    PREPARE {prepare}").expect("a string takes it");
        // A handle that is refused must be known to be the reason.
        let never_null = function.name.ends_with("_retain");
        arguments.push(match never_null {
            true => format!("o{position}"),
            false => format!("one_in(f, 40) ? NULL : o{position}"),
        });
        if pointee.starts_with("DLManagedTensor") {
            writeln!(
                after,
                "    if (o{position}[0] != NULL) o{position}[0]->deleter(o{position}[0]);"
            )
            .expect("a string takes it");
        }
        if pointee.ends_with(" *")
            && let Some(made) = kind_of(plain)
        {
            let adopt = match made.as_str() {
                "UMBO_HANDLE_REPLICA_CONTEXT" => "borrowed",
                _ if function.name.ends_with("_retain") => "keep",
                _ => "adopt",
            };
            writeln!(
                after,
                "    for (index = 0; index < MOST_ROOM; index++) {adopt}(f, {made}, status, \
                 o{position}[index]);"
            )
            .expect("a string takes it");
        }
    }
    // Declarations come before statements.
    let (prepare, declared): (Vec<_>, Vec<_>) = locals
        .lines()
        .partition(|line| line.starts_with("    PREPARE "));
    let prepare: Vec<_> = prepare
        .iter()
        .map(|line| line.replacen("PREPARE ", "", 1))
        .collect();
    let call = format!("{name}({})", arguments.join(", "));
    let call = match function.returns.as_str() {
        "umbo_status" => format!("status = {call};"),
        "void" => format!("{call};"),
        _ => format!("(void){call};"),
    };
    let noun = |suffix: &str| {
        let handle = function
            .parameters
            .first()
            .map_or("", |first| first.name.as_str());
        name.strip_suffix(suffix)
            .filter(|_| !handle.is_empty())
            .and_then(kind_of)
    };
    let mut before = String::new();
    let mut retained = String::new();
    if let Some(kind) = noun("_release") {
        // Before the call: what it destroys may call back, and the handle is stale by then.
        writeln!(before, "    released(f, {kind}, a0);").expect("a string takes it");
    }
    if let Some(kind) = noun("_retain") {
        // Before anything else is called, which may release the handle or fail with another
        // message.
        retained = format!("    retained(f, {kind}, status, a0);\n");
    }
    let mut nesting = ("", "");
    if name == "umbo_callback_keep_handles" {
        after.push_str("    keep_all(f);\n");
    }
    if name == "umbo_scope_exit" {
        after.push_str(
            "    if (status == UMBO_OK || status == UMBO_STATUS_NOT_FOUND) released(f, \
             UMBO_HANDLE_SCOPE, a0);\n",
        );
        // The destroy function of a scope would leave that very scope, whose exit then fails.
        nesting = (
            "    f->nesting += MOST_NESTING;\n",
            "    f->nesting -= MOST_NESTING;\n",
        );
    }
    let (closed, open) = nesting;
    let token = if has_token { "new_token(f)" } else { "NULL" };
    writeln!(
        calls,
        "static void draw_{name}(struct fuzzer *f) {{\n    umbo_status status = UMBO_OK;\n    int \
         index;\n    void *token = {token};\n{}\n{}\n    begin_call(f, \
         \"{name}\");\n{before}{closed}    {call}\n{retained}{open}    end_call(f, status, \
         \"{name}\");\n{after}    (void)index;\n    (void)token;\n}}\n",
        declared.join("\n"),
        prepare.join("\n")
    )
    .expect("a string takes it");
    Ok(())
}
