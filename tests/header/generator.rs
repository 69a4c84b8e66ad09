//! The generator of the C programs over all functions, and that the C++ layer reaches all of the C API.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{cases, header, matrix, sequences};

/// All headers.
fn headers() -> header::Header {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/umbo/all.h");
    let text = header::with_included(&path, &mut BTreeSet::new()).expect("the headers are there");
    header::read(&text).expect("the headers are readable")
}

const SAMPLE: &str = r#"
#ifdef __cplusplus
extern "C" {
#endif
UMBO_ENUM(umbo_status) {
  /** Good; no comma follows. */
  UMBO_OK = 0
};
static inline void umbo_ignore(umbo_status status) { (void)status; }
typedef struct umbo_tensor umbo_tensor;
typedef struct umbo_thing_options { size_t struct_size; void (*hook)(void *user_data); } umbo_thing_options;
typedef umbo_status (*umbo_scope_fn)(umbo_strategy *strategy, void *user_data);
/**
 * Does a thing with `tensor` by `options` (NULL: the defaults). `fn` may be NULL if there is
 * nothing to do; `out` gets NULL then.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_thing_do(
    const umbo_tensor *tensor, umbo_scope_fn fn, void *user_data,
    const umbo_thing_options *options, umbo_tensor **out);
/**
 * Does another thing.
 *
 * @param[in] tensor What it is done with. NULL: nothing.
 * @param[in] options Not NULL: they say what.
 * @param[out] out What was made, and not NULL.
 * @return UMBO_OK, or what went wrong.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_thing_do_another(
    const umbo_tensor *tensor, const umbo_thing_options *options, umbo_tensor **out);
// Releases. `tensor` may be NULL.
static inline void umbo_tensor_release(const umbo_tensor *tensor) { umbo_release(tensor, 1); }
UMBO_API const char *umbo_version(void);
#ifdef __cplusplus
}  // extern "C"
#endif
"#;

#[test]
fn reads_functions_and_what_may_be_null() {
    let header = header::read(SAMPLE).expect("the sample is readable");
    let names: Vec<_> = header.functions.iter().map(|function| function.name.as_str()).collect();
    let all = ["umbo_thing_do", "umbo_thing_do_another", "umbo_tensor_release", "umbo_version"];
    assert_eq!(names, all);
    let parameters: Vec<_> = header.functions[0]
        .parameters
        .iter()
        .map(|parameter| (parameter.name.as_str(), parameter.kind.as_str(), parameter.nullable))
        .collect();
    let expected = [
        ("tensor", "const umbo_tensor *", false),
        ("fn", "umbo_scope_fn", false),
        ("user_data", "void *", true),
        ("options", "const umbo_thing_options *", true),
        ("out", "umbo_tensor * *", false),
    ];
    assert_eq!(parameters, expected);
    let nullable = header.functions[1].parameters.iter().map(|parameter| parameter.nullable);
    assert_eq!(nullable.collect::<Vec<_>>(), [true, false, false]);
    assert!(header.functions[2].parameters[0].nullable);
    assert!(header.sized_structs.contains("umbo_thing_options"));
    assert!(header.integers.contains_key("umbo_status"));
    let problem = header::read("void umbo_f(void);").expect_err("it is not marked");
    assert!(problem.contains("umbo_f"), "{problem}");
}

#[test]
fn writes_one_case_for_each_pointer_parameter() {
    let header = header::read(SAMPLE).expect("the sample is readable");
    let (program, count) = cases::program(&header).expect("the table has all types");
    assert_eq!(count, 9);
    assert!(program.contains("refused(umbo_thing_do(NULL, good_scope_fn, NULL, &options, &out)"));
    assert!(
        program.contains("allowed(umbo_thing_do(good.tensor, good_scope_fn, NULL, NULL, &out)")
    );
    assert!(program.contains("options.struct_size = sizeof(options);"));
    assert!(program.contains("    null_umbo_tensor_release_tensor();"));
}

#[test]
fn refuses_a_type_that_no_table_has() {
    let header = header::read("UMBO_API int32_t umbo_f(umbo_unheard_of *thing, const char *name);")
        .expect("the sample is readable");
    let problem = cases::program(&header).expect_err("the type is unknown");
    assert!(problem.contains("umbo_unheard_of"), "{problem}");
}

#[test]
fn the_header_has_a_case_for_every_function_with_pointers() {
    let header = headers();
    let (program, count) = cases::program(&header).expect("the tables have all types");
    assert!(count > 200, "only {count} pointer parameters found");
    for function in &header.functions {
        let has_pointer = function.parameters.iter().any(|parameter| parameter.kind.ends_with('*'));
        assert!(!has_pointer || program.contains(&function.name), "{} is left out", function.name);
    }
}

#[test]
fn the_matrix_calls_every_function_and_covers_every_callback() {
    let mut header = headers();
    let (program, count) = matrix::program(&header).expect("the tables have all types");
    assert_eq!(count, header.functions.len());
    for function in &header.functions {
        assert!(program.contains(&format!("call_{}(struct", function.name)), "{}", function.name);
    }
    header.callbacks.insert("umbo_unheard_of_fn".into());
    let problem = matrix::program(&header).expect_err("no context calls back like that");
    assert!(problem.contains("umbo_unheard_of_fn"), "{problem}");
}

#[test]
fn the_sequences_draw_every_function_and_every_callback() {
    let mut header = headers();
    let (program, count) = sequences::program(&header).expect("all types can be drawn");
    assert_eq!(count, header.functions.len());
    for function in &header.functions {
        assert!(program.contains(&format!("draw_{}(struct", function.name)), "{}", function.name);
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/umbo/cpp");
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
        .flat_map(|noun| [format!("umbo_{noun}_retain"), format!("umbo_{noun}_release")])
        .collect();
    let missing: Vec<_> = header
        .functions
        .iter()
        .map(|function| &function.name)
        .filter(|name| {
            let used = [format!("{name}("), format!("&{name},"), format!("&{name})")];
            !used.iter().any(|use_of_it| layer.contains(use_of_it)) && !pasted.contains(name)
        })
        .collect();
    assert!(missing.is_empty(), "not reachable from C++: {missing:?}");
}
