//! The order of parameters and fields.

use super::{code, functions, headers, name_of};

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
