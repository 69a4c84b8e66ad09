//! The generator of the C programs over all functions, and that the C++ layer reaches all of the C
//! API.

use std::collections::BTreeSet;

use crate::{cases, committed_headers, header, matrix, numbers, sequences};

/// All headers.
fn headers() -> header::Header {
    let path = committed_headers().join("all.h");
    let text = header::with_included(&path, &mut BTreeSet::new()).expect("the headers are there");
    header::read(&text).expect("the headers are readable")
}

#[test]
fn the_header_has_a_case_for_every_function_with_pointers() {
    let header = headers();
    let (program, count) = cases::program(&header).expect("the tables have all types");
    assert!(count > 200, "only {count} pointer parameters found");
    for function in &header.functions {
        let has_pointer = function
            .parameters
            .iter()
            .any(|parameter| parameter.kind.ends_with('*'));
        assert!(
            !has_pointer || program.contains(&function.name),
            "{} is left out",
            function.name
        );
    }
}

#[test]
fn the_matrix_calls_every_function_and_covers_every_callback() {
    let mut header = headers();
    let (program, count) = matrix::program(&header).expect("the tables have all types");
    assert_eq!(count, header.functions.len());
    for function in &header.functions {
        assert!(
            program.contains(&format!("call_{}(struct", function.name)),
            "{}",
            function.name
        );
    }
    header.callbacks.insert("umbo_unheard_of_fn".into());
    let problem = matrix::program(&header).expect_err("no context calls back like that");
    assert!(problem.contains("umbo_unheard_of_fn"), "{problem}");
}

#[test]
fn the_numbers_are_given_to_every_integer() {
    let header = headers();
    let (program, count) = numbers::program(&header).expect("the tables have all types");
    assert!(count > 200, "only {count} places found");
    let integers = ["int32_t", "int64_t", "uint64_t", "size_t"];
    for function in &header.functions {
        for parameter in &function.parameters {
            let line = format!("{{\"{}\", \"{}\", ", function.name, parameter.name);
            let expected = integers.contains(&parameter.kind.as_str());
            assert!(!expected || program.contains(&line), "{line} is left out");
        }
    }
    for field in [
        "axis_count",
        "state_count",
        "bin_count",
        "thread_stack_bytes",
        "shape",
    ] {
        assert!(program.contains(&format!("\", \"{field}\", ")), "{field}");
    }
}

#[test]
fn the_sequences_draw_every_function_and_every_callback() {
    let mut header = headers();
    let (program, count) = sequences::program(&header).expect("all types can be drawn");
    assert_eq!(count, header.functions.len());
    for function in &header.functions {
        assert!(
            program.contains(&format!("draw_{}(struct", function.name)),
            "{}",
            function.name
        );
    }
    header.callbacks.insert("umbo_unheard_of_fn".into());
    let problem = sequences::program(&header).expect_err("there is no such callback");
    assert!(problem.contains("umbo_unheard_of_fn"), "{problem}");
    let unknown = "UMBO_API umbo_status umbo_f(const umbo_unheard_of *thing);";
    let header = header::read(unknown).expect("the sample is readable");
    let problem = sequences::program(&header).expect_err("the type is unknown");
    assert!(problem.contains("umbo_unheard_of"), "{problem}");
}

#[test]
fn the_cpp_layer_reaches_every_function() {
    let header = headers();
    let folder = committed_headers().join("cpp");
    let mut layer = String::new();
    for entry in std::fs::read_dir(folder).expect("the C++ layer is there") {
        let path = entry.expect("the folder is readable").path();
        layer += &std::fs::read_to_string(path).expect("the C++ layer is readable");
    }
    // References are counted through one macro, which pastes the names together.
    let pasted: Vec<_> = layer
        .split("UMBO_DETAIL_REFERENCES(")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .flat_map(|noun| {
            [
                format!("umbo_{noun}_retain"),
                format!("umbo_{noun}_release"),
            ]
        })
        .collect();
    // What an inline function calls.
    let inline = ["umbo_rows_new_gradient_row"];
    let missing: Vec<_> = header
        .functions
        .iter()
        .map(|function| &function.name)
        .filter(|name| {
            let used = [format!("{name}("), format!("&{name},"), format!("&{name})")];
            !used.iter().any(|use_of_it| layer.contains(use_of_it)) && !pasted.contains(name)
        })
        .filter(|name| !inline.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "not reachable from C++: {missing:?}");
}
