//! The rules that all declarations keep: one order, one word, one type for each thing.

use std::collections::BTreeSet;
use std::path::Path;

use super::{committed_headers, generated, header};

/// The headers for C.
fn headers() -> impl Iterator<Item = &'static (String, String)> {
    let all = generated().iter();
    all.filter(|(name, _)| name.ends_with(".h") && !name.starts_with("inline/"))
}

/// The text without comments.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("the comment ends").1;
    }
    code + rest
}

/// What is said in comments, a line each.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| matches!(line.trim_start().as_bytes(), [b'*', ..] | [b'/', b'*', ..]))
}

/// The functions that are exported or inline, each with its parameters.
fn functions(text: &str) -> Vec<(String, Vec<String>)> {
    let code = code(text);
    let mut found = Vec::new();
    for start in ["UMBO_API ", "static inline "] {
        for prototype in code.split(start).skip(1) {
            let Some((head, rest)) = prototype.split_once('(') else {
                continue;
            };
            let Some(name) = head
                .rsplit([' ', '*'])
                .next()
                .filter(|name| name.starts_with("umbo_"))
            else {
                continue;
            };
            let list = rest.split(')').next().expect("it ends");
            let one = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            found.push((name.to_owned(), list.split(',').map(one).collect()));
        }
    }
    found
}

/// The fields of structs, as they are declared.
fn fields(text: &str) -> Vec<(String, String)> {
    let code = code(text);
    let mut found = Vec::new();
    for body in code.split("typedef struct ").skip(1) {
        let Some((name, rest)) = body.split_once(" {\n") else {
            continue;
        };
        if name.contains(';') {
            continue;
        }
        let body = rest.split("\n}").next().expect("it ends");
        found.extend(
            body.split(';')
                .map(|field| (name.to_owned(), field.trim().to_owned())),
        );
    }
    found.retain(|(_, field)| !field.is_empty());
    found
}

fn name_of(declaration: &str) -> &str {
    let before = declaration.split('[').next().expect("a part");
    before.rsplit([' ', '*']).next().expect("a name")
}

/// All parameters and fields: where each stands, and its declaration.
fn declarations() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            all.extend(parameters.into_iter().map(|one| (function.clone(), one)));
        }
        all.extend(fields(text));
    }
    assert!(all.len() > 700, "only {} were found", all.len());
    all
}

#[test]
fn names_stand_before_what_they_name() {
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            let Some(names) = parameters
                .iter()
                .position(|one| one.contains("const char *const *"))
            else {
                continue;
            };
            let before = names
                .checked_sub(1)
                .map(|place| name_of(&parameters[place]));
            assert!(
                before.is_some_and(|name| name.ends_with("count")),
                "{function}"
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

/// Arrays that callers give have a number of elements, which stands before them; other lists,
/// the context and the operation on them may stand between.
#[test]
fn a_count_stands_before_its_arrays() {
    // One for each dimension, or each rank.
    let others = [
        "shape",
        "strides",
        "axes",
        "bytes",
        "send_bytes",
        "receive_bytes",
    ];
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            for (place, parameter) in parameters.iter().enumerate() {
                let name = name_of(parameter);
                let element = parameter.strip_prefix("const ").unwrap_or(parameter);
                let is_number = ["int", "size_t", "double", "umbo_view"]
                    .iter()
                    .any(|kind| element.starts_with(kind));
                let is_array = parameter.contains("*const *")
                    || parameter.starts_with("const ") && is_number && name.ends_with('s');
                // Its views are of one array each.
                let is_view = function == "umbo_metrics_add_labels";
                if !is_array || is_view || others.contains(&name) {
                    continue;
                }
                let before = parameters[..place].iter().rev();
                let mut between =
                    before.skip_while(|one| one.contains('*') || name_of(one) == "op");
                assert!(
                    between
                        .next()
                        .is_some_and(|one| name_of(one).ends_with("count")),
                    "{function}: {name}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "{seen}");
}

/// The bytes of a block of memory stand behind it, as the capacity of a buffer does.
#[test]
fn memory_comes_with_its_bytes() {
    // Their memory is an output, which is last; the order is that of the callback.
    let last = [
        "umbo_communicator_broadcast",
        "umbo_replica_context_scratch",
    ];
    // It has a size for each rank.
    let sizes = ["umbo_communicator_all_gather"];
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            let names: Vec<_> = parameters.iter().map(|one| name_of(one)).collect();
            let bytes = names.iter().position(|name| *name == "bytes");
            let Some(place) = bytes.filter(|_| !sizes.contains(&&*function)) else {
                continue;
            };
            let neighbour = if last.contains(&&*function) {
                place + 1
            } else {
                place - 1
            };
            assert!(
                parameters[neighbour].contains("void *"),
                "{function}: {names:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen}");
}

#[test]
fn a_buffer_comes_with_its_capacity_and_the_length() {
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            let names: Vec<_> = parameters.iter().map(|one| name_of(one)).collect();
            let Some(place) = names.iter().position(|name| *name == "capacity") else {
                continue;
            };
            assert!(
                place > 0 && parameters[place - 1].contains('*'),
                "{function}: {names:?}"
            );
            assert_eq!(
                names.get(place + 1),
                Some(&"length"),
                "{function}: {names:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 3, "{seen}");
}

#[test]
fn a_number_of_things_is_a_count() {
    // What the field calls a size: of a batch, of a buffer of elements; and that of a struct.
    let sizes = [
        "struct_size",
        "batch_size",
        "buffer_size",
        "per_replica_buffer_size",
        "global_batch_size",
    ];
    for (place, declaration) in declarations() {
        let name = name_of(&declaration);
        let parts: Vec<_> = name.split('_').collect();
        assert!(!parts.contains(&"num"), "{place}: {declaration}");
        let is_size = parts.contains(&"size") && !sizes.contains(&name);
        assert!(!is_size, "{place}: {declaration}");
    }
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let is_size = function.ends_with("_size") && !function.ends_with("_batch_size");
            assert!(!function.contains("_num_") && !is_size, "{function}");
        }
    }
}

#[test]
fn only_information_is_got() {
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let got = function.contains("_get_");
            assert!(
                !got || function.ends_with("info"),
                "{function}: a getter has no verb"
            );
        }
    }
}

#[test]
fn bytes_have_one_type() {
    let mut seen = 0;
    for (place, declaration) in declarations() {
        if name_of(&declaration).ends_with("bytes") {
            let kind = declaration.trim_start_matches("const ");
            assert!(
                kind.starts_with("size_t") || declaration.contains("void *"),
                "{place}: {declaration}"
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn words_are_those_of_the_field() {
    let not_ours = ["most", "longest", "withdraw", "room", "anew", "told"];
    for (place, declaration) in declarations() {
        let name = name_of(&declaration);
        let wrong = name.split('_').find(|word| not_ours.contains(word));
        // `keep` alone was the number of checkpoints that are kept.
        assert!(wrong.is_none() && name != "keep", "{place}: {declaration}");
    }
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let wrong = function.split('_').find(|word| not_ours.contains(word));
            assert_eq!(wrong, None, "{function}");
        }
    }
}

#[test]
fn a_rank_is_a_process() {
    let of_processes = [
        "communicator",
        "cluster",
        "strategy",
        "rank",
        "input_context",
        "value_context",
        "split",
    ];
    for (place, declaration) in declarations() {
        if name_of(&declaration) == "rank" {
            let fits = of_processes.iter().any(|word| place.contains(word));
            assert!(
                fits,
                "{place}: {declaration}: a number of dimensions is ndim"
            );
        }
    }
}

#[test]
fn comments_say_what_is_their_own() {
    // What core.h says for all; names instead of -1; words that nobody uses.
    let not_here = [
        "an invalid handle",
        "not a valid handle",
        "a null pointer",
        "there is no memory",
        "is told",
        "whoever",
        "of all but",
        "starting value",
    ];
    let mut wrong = BTreeSet::new();
    for (header, text) in headers() {
        for line in comments(text) {
            let number = line.contains(" -1 ")
                || line.contains(" -1:")
                || line.contains(" -1.")
                || line.contains(" -1;");
            // core.h says it for all.
            let is_wrong = |words: &&str| line.contains(words) && header != "core.h";
            if number || not_here.iter().any(is_wrong) {
                wrong.insert(format!("{header}: {line}"));
            }
        }
    }
    let list = wrong.into_iter().collect::<Vec<_>>();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

/// A header is a page to read: it comes to the point.
#[test]
fn headers_begin_with_declarations() {
    for (header, text) in headers() {
        let declaration = |line: &str| {
            ["typedef ", "UMBO_", "static inline", "#define UMBO_"]
                .iter()
                .any(|start| line.starts_with(start))
                && !line.ends_with("_H")
        };
        let first = text.lines().position(declaration).unwrap_or(0);
        // core.h begins with what holds for all, umbo.h with a program, dlpack.h has the structs of
        // others.
        let is_special = ["core.h", "umbo.h", "dlpack.h"].contains(&header.as_str());
        assert!(
            first < 40 || is_special,
            "{header}: the first declaration is in line {}",
            first + 1
        );
    }
}

/// `umbo.h` has what a trainer needs; the rest is in headers that are included by name.
#[test]
fn a_trainer_sees_about_120_functions() {
    let folder = committed_headers();
    let text = header::with_included(&folder.join("umbo.h"), &mut BTreeSet::new()).unwrap();
    let found = code(&text).matches("UMBO_API umbo_status ").count();
    assert!((100..=125).contains(&found), "{found}");
}

/// The interpreter of the cases calls what is exported, so inline functions are called by a C test.
#[test]
fn inline_functions_have_tests_in_c() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let files = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let tests: String = files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut seen = 0;
    for (header, text) in headers() {
        for part in code(text).split("static inline ").skip(1) {
            let name = part
                .split('(')
                .next()
                .unwrap()
                .rsplit([' ', '*'])
                .next()
                .unwrap();
            if !name.starts_with("umbo_") {
                continue;
            }
            let called = ["(", ","]
                .iter()
                .any(|end| tests.contains(&format!("{name}{end}")));
            assert!(called, "{header}: no test in C calls {name}");
            seen += 1;
        }
    }
    assert!(seen > 40, "{seen}");
}

#[test]
fn every_constant_of_an_enum_has_a_counterpart_in_cpp() {
    let files = std::fs::read_dir(committed_headers().join("cpp"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let texts: Vec<_> = files
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let of_cpp: BTreeSet<_> = texts
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.split_once(" = ")?.1.strip_suffix(','))
        .collect();
    let mut seen = 0;
    for (_, text) in headers() {
        for body in code(text).split("typedef enum ").skip(1) {
            let body = body.split('}').next().expect("it ends");
            // Those of DLPack have no name there.
            if body.starts_with("UMBO_INT32 ") {
                continue;
            }
            // A sum of flags is no constant of its enum.
            if body.starts_with("umbo_view_flags ") {
                continue;
            }
            for line in body
                .lines()
                .map(str::trim)
                .filter(|line| line.starts_with("UMBO_"))
            {
                let name = line.split(' ').next().expect("a part");
                assert!(
                    of_cpp.contains(name),
                    "{name} is in no enum of include/umbo/cpp; they are made from \
                     crates/umbo-headers/templates"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 80, "{seen}");
}

/// The options that a text of C++ fills in, each with the function around them from there on.
fn filled_in(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let lines = text.match_indices("_OPTIONS_INIT;").map(|(end, _)| {
        let start = text[..end].rfind('\n').map_or(0, |before| before + 1);
        &text[start..]
    });
    lines.filter_map(|rest| {
        let line = rest.lines().next()?;
        let (owner, rest_of_line) = line.trim_start().split_once(' ')?;
        let (variable, _) = rest_of_line.split_once(" = ")?;
        // The function ends with a brace that is indented less than its statements.
        let indentation = &line[4..line.len() - line.trim_start().len()];
        let body = rest.split(&format!("\n{indentation}}}\n")).next()?;
        Some((owner, variable, body))
    })
}

#[test]
fn every_option_of_c_is_set_by_cpp() {
    // The functions that take the callable, or draw the elements, set these.
    let elsewhere = [
        ("umbo_strategy_options", "replica_thread_start"),
        ("umbo_strategy_options", "replica_thread_stop"),
        ("umbo_strategy_options", "replica_thread_user_data"),
        ("umbo_strategy_options", "replica_thread_user_data_destroy"),
        ("umbo_variable_options", "initializer"),
        ("umbo_variable_options", "initializer_user_data"),
    ];
    let all: Vec<_> = headers().flat_map(|(_, text)| fields(text)).collect();
    let mut seen = 0;
    for entry in std::fs::read_dir(committed_headers().join("cpp")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for (owner, variable, body) in filled_in(&text) {
            for (_, field) in all.iter().filter(|(name, _)| name == owner) {
                let field = name_of(field);
                if ["struct_size", "user_data_destroy"].contains(&field)
                    || elsewhere.contains(&(owner, field))
                {
                    continue;
                }
                assert!(
                    body.contains(&format!("{variable}.{field} =")),
                    "include/umbo/cpp does not set {owner}.{field}"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

/// A function passes on to its callback what it is given, in the order of the callback.
#[test]
fn a_callback_has_the_order_of_its_function() {
    let passes_on = ["args", "batch", "iterator", "steps"];
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            let names: Vec<_> = parameters.iter().map(|one| name_of(one)).collect();
            let place = |name: &str| names.iter().position(|given| *given == name);
            let (Some(callback), Some(user_data)) = (
                parameters
                    .iter()
                    .position(|one| one.contains("_fn ") && !one.starts_with("umbo_destroy_fn")),
                place("user_data"),
            ) else {
                continue;
            };
            let passed = |name: &&str| passes_on.contains(name);
            assert!(
                names[callback + 1..user_data].iter().all(passed)
                    && !names[user_data..].iter().any(passed),
                "{function}: {names:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_value_comes_before_the_operation_on_it() {
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, parameters) in functions(text) {
            let names: Vec<_> = parameters.iter().map(|one| name_of(one)).collect();
            let operation = names.iter().position(|name| ["op", "axis"].contains(name));
            let Some(place) = operation.filter(|_| !function.starts_with("umbo_tensor_")) else {
                continue;
            };
            let before = names[place - 1];
            assert!(
                ["value", "values", "slices"].contains(&before),
                "{function}: {names:?}"
            );
            seen += 1;
        }
    }
    assert!(seen > 6, "{seen}");
}

/// Handles in a list are those that a program has: no caller casts.
#[test]
fn lists_have_handles_as_programs_have_them() {
    for (place, declaration) in declarations() {
        let is_list = declaration.contains("*const *") && declaration.contains("umbo_");
        // A destination is a struct of the program's, and may be const.
        let is_const = declaration.starts_with("const ") && !declaration.contains("destination");
        assert!(!(is_list && is_const), "{place}: {declaration}");
    }
}

/// The functions of a header, each with the comment above it and its parameters.
fn documented(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for part in text.split("/**").skip(1) {
        let Some((comment, rest)) = part.split_once("*/") else {
            continue;
        };
        let declaration = rest.trim_start().trim_start_matches("UMBO_MUST_USE ");
        if !["UMBO_API ", "static inline "]
            .iter()
            .any(|start| declaration.starts_with(start))
        {
            continue;
        }
        let Some((head, parameters)) = declaration.split_once('(') else {
            continue;
        };
        let name = head.rsplit([' ', '*']).next().expect("a part");
        let lines = comment.lines().map(|line| line.trim_matches([' ', '*']));
        found.push((
            name.to_owned(),
            lines.collect::<Vec<_>>().join(" ").trim().to_owned(),
            parameters.split(')').next().expect("a part").to_owned(),
        ));
    }
    found
}

#[test]
fn a_getter_says_that_a_handle_is_new() {
    // It lends its context.
    let lends = ["umbo_replica_context_current"];
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, comment, parameters) in documented(text) {
            let returns_handle = parameters.split(',').any(|one| {
                let one = one.trim_start();
                one.starts_with("umbo_") && one.contains(" **") && !one.contains("_fn")
            });
            let first = comment.split(". ").next().expect("a part");
            if !returns_handle || !first.starts_with("Gets ") || lends.contains(&&*function) {
                continue;
            }
            assert!(first.contains("new handle"), "{function}: {first}");
            seen += 1;
        }
    }
    assert!(seen > 14, "{seen}");
}

/// What a function is about stands first in its name; what concerns the whole library, or the
/// thread, has no noun.
#[test]
fn functions_begin_with_a_noun() {
    let verbs = ["set", "has", "current", "default", "convert", "get", "in"];
    let of_library = [
        "umbo_set_last_error",
        "umbo_set_log_callback",
        "umbo_set_worker_count",
        // TensorFlow's name.
        "umbo_in_cross_replica_context",
    ];
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let word = function.split('_').nth(1).expect("a part");
            assert!(
                !verbs.contains(&word) || of_library.contains(&&*function),
                "{function}: the noun comes first"
            );
        }
    }
}

#[test]
fn a_struct_that_a_callback_gets_begins_with_its_size() {
    // A view is as it is, like the elements that it shows.
    let whole = ["umbo_view"];
    let all: String = headers().map(|(_, text)| code(text)).collect();
    let mut seen = 0;
    for callback in all.split("typedef ").filter(|text| text.contains("_fn)(")) {
        let list = callback.split_once("_fn)(").expect("it takes something").1;
        let list = list.split(')').next().expect("it ends");
        for parameter in list.split(',').map(str::trim) {
            let Some(name) = parameter
                .strip_prefix("const ")
                .and_then(|rest| rest.split(' ').next())
            else {
                continue;
            };
            let Some((_, body)) = all.split_once(&format!("typedef struct {name} {{\n")) else {
                continue;
            };
            if whole.contains(&name) {
                continue;
            }
            assert!(
                body.trim_start().starts_with("size_t struct_size;"),
                "{name}"
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}
