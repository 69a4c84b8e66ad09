//! Errors begin with the name of the C function that failed, which the C layer alone knows.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::{fs, ptr};

use umbo::*;

use super::alone;

use super::calls::{last_message, made, ok, refused};

fn strategy() -> *mut umbo_strategy {
    // SAFETY: all bytes zero is a value of the struct.
    let mut options: umbo_strategy_options = unsafe { std::mem::zeroed() };
    options.struct_size = struct_size::<umbo_strategy_options>();
    options.cpu_replicas = 2;
    // SAFETY: the options are there, and the output is a variable.
    made(|out| unsafe { umbo_strategy_create(&options, out) })
}

fn tensor() -> *mut umbo_value {
    // SAFETY: the output is a variable, a scalar has no sizes, and the handle is live.
    unsafe {
        let zeros = made(|out| {
            umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, ptr::null(), ptr::null(), out)
        });
        let value = made(|out| umbo_value_from_tensor(zeros, out));
        umbo_release(zeros.cast(), UMBO_HANDLE_TENSOR);
        value
    }
}

/// What the last error says of its first failure.
fn first_record() -> String {
    // SAFETY: all bytes zero is a value of the struct, which is as long as it says, and the message
    // lives until the next failure.
    unsafe {
        let mut info: umbo_error_info = std::mem::zeroed();
        info.struct_size = struct_size::<umbo_error_info>();
        ok(umbo_last_error_at(0, &mut info));
        std::ffi::CStr::from_ptr(info.message)
            .to_string_lossy()
            .into_owned()
    }
}

#[test]
fn a_function_that_fails_begins_its_message_with_its_name() {
    let _alone = alone();
    let s = strategy();
    let value = tensor();
    let mut none = ptr::null_mut();
    let mut tensor = ptr::null_mut();
    let mut flag = 0;
    // SAFETY: pointers are NULL, live handles or variables.
    let failures = unsafe {
        let mut failures = Vec::new();
        let mut fails = |name: &'static str, status: umbo_status| {
            assert_ne!(status, UMBO_OK, "{name}");
            let message = last_message();
            assert_eq!(first_record(), message, "{name}");
            failures.push((name, message));
        };
        fails(
            "umbo_strategy_gather",
            umbo_strategy_gather(s, value, 7, ptr::null(), ptr::null_mut()),
        );
        fails(
            "umbo_strategy_reduce",
            umbo_strategy_reduce(s, value, 77, ptr::null(), &mut none),
        );
        fails(
            "umbo_strategy_synchronize",
            umbo_strategy_synchronize(ptr::null_mut()),
        );
        fails(
            "umbo_device_get_info",
            umbo_device_get_info(c"x".as_ptr(), ptr::null_mut()),
        );
        fails("umbo_set_worker_count", umbo_set_worker_count(-1));
        fails(
            "umbo_build_has_feature",
            umbo_build_has_feature(ptr::null(), &mut flag),
        );
        fails(
            "umbo_variable_scatter",
            umbo_variable_scatter(ptr::null_mut(), value, UMBO_SCATTER_MIN),
        );
        fails(
            "umbo_variable_assign_sub",
            umbo_variable_assign_sub(ptr::null_mut(), value),
        );
        let mut info = umbo_variable_info::default();
        fails(
            "umbo_variable_get_info",
            umbo_variable_get_info(ptr::null(), &mut info),
        );
        fails(
            "umbo_value_indexed_slices",
            umbo_value_indexed_slices(value, &mut tensor, ptr::null_mut()),
        );
        fails(
            "umbo_optimizer_create_adam",
            umbo_optimizer_create_adam(s, ptr::null(), ptr::null_mut()),
        );
        fails("umbo_dataset_take", umbo_dataset_take(ptr::null_mut(), 1));
        fails("umbo_dataset_skip", umbo_dataset_skip(ptr::null_mut(), 1));
        let mut retained: *mut umbo_value = ptr::null_mut();
        let place = (&raw mut retained).cast();
        fails(
            "umbo_retain",
            umbo_retain(ptr::null(), UMBO_HANDLE_VALUE, place),
        );
        let function = None;
        let data = ptr::null_mut();
        fails(
            "umbo_strategy_run",
            umbo_strategy_run(s, function, ptr::null(), data, ptr::null(), ptr::null_mut()),
        );
        fails(
            "umbo_set_last_error",
            umbo_set_last_error(UMBO_OK, c"fine".as_ptr(), data, None),
        );
        failures
    };
    for (name, message) in failures {
        let rest = message
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(": "));
        let rest = rest.unwrap_or_else(|| panic!("{name} says: {message}"));
        assert!(!rest.contains("umbo_"), "{name} says: {message}");
    }
    // SAFETY: the handles are live.
    unsafe {
        umbo_release(value.cast(), UMBO_HANDLE_VALUE);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
}

/// Gathers inside of a replica's callback, where that is refused.
unsafe extern "C-unwind" fn gathers(
    _: *mut umbo_replica_context,
    args: *const umbo_value,
    strategy: *mut c_void,
    _: *mut *mut umbo_value,
) -> umbo_status {
    let mut gathered = ptr::null_mut();
    // SAFETY: the caller passes its strategy, and the output is a variable.
    unsafe { umbo_strategy_gather(strategy.cast(), args, 0, ptr::null(), &mut gathered) }
}

#[test]
fn errors_of_replicas_begin_with_the_replica() {
    let _alone = alone();
    let s = strategy();
    let value = tensor();
    let none = ptr::null();
    // SAFETY: the handles are live, and the callback gets what it wants.
    let status =
        unsafe { umbo_strategy_run(s, Some(gathers), value, s.cast(), none, ptr::null_mut()) };
    refused(
        status,
        UMBO_STATUS_FAILED_PRECONDITION,
        &["use an all-gather"],
    );
    for (replica, line) in last_message().lines().enumerate() {
        let failed = format!("replica {replica} (CPU:{replica})");
        assert!(line.starts_with(&failed), "{line}");
        assert!(
            line.contains(": FAILED_PRECONDITION: umbo_strategy_gather: requires"),
            "{line}"
        );
    }
    assert_eq!(last_message().lines().count(), 2);
    assert!(first_record().starts_with("umbo_strategy_gather: requires"));
    // SAFETY: the handles are live.
    unsafe {
        umbo_release(value.cast(), UMBO_HANDLE_VALUE);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
}

/// Fails in a function of the library and passes that on: as it is, or in words of its own if the
/// user data is there.
unsafe extern "C-unwind" fn passes_on(_: *mut umbo_strategy, words: *mut c_void) -> umbo_status {
    // SAFETY: NULL is refused.
    let status = unsafe { umbo_strategy_set_current(ptr::dangling_mut()) };
    if words.is_null() {
        return status;
    }
    // SAFETY: the user data is a text, as its caller says.
    unsafe { umbo_set_last_error(status, words.cast_const().cast(), ptr::null_mut(), None) }
}

#[test]
fn the_innermost_function_is_named_and_no_other() {
    let _alone = alone();
    let s = strategy();
    // SAFETY: the handle is live, and the user data is NULL or a text.
    unsafe {
        let scope = |words: *mut c_void| {
            let status = umbo_strategy_scope(s, Some(passes_on), words);
            (status, last_message())
        };
        let (status, message) = scope(ptr::null_mut());
        assert_eq!(status, UMBO_STATUS_INVALID_ARGUMENT);
        assert!(
            message.starts_with("umbo_strategy_set_current: strategy: "),
            "{message}"
        );
        assert!(!message.contains("umbo_strategy_scope"), "{message}");

        let again = c"umbo_strategy_set_current: not that one"
            .as_ptr()
            .cast_mut()
            .cast();
        assert_eq!(scope(again).1, "umbo_strategy_set_current: not that one");
        let text = c"not that one".as_ptr().cast_mut().cast();
        assert_eq!(scope(text).1, "umbo_strategy_scope: not that one");
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_function_that_is_written_out_passes_its_own_name() {
    let _alone = alone();
    let mut paths = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"),
        &mut paths,
    );
    // These have their own ways: they are about the last error itself.
    let exempt = ["umbo_last_error_at"];
    let mut seen = 0;
    for path in paths {
        let source = fs::read_to_string(&path).expect("the file can be read");
        let functions: Vec<_> = source.split("extern \"C\" fn ").collect();
        for function in &functions[1..] {
            let (name, rest) = function.split_once('(').expect("a function has parameters");
            let body = rest.split("\n}\n").next().expect("a function has a body");
            let fails = body.contains("-> umbo_status {") || name.ends_with("_release");
            if !name.starts_with("umbo_") || !fails || exempt.contains(&name) {
                continue;
            }
            let own_names = body.matches(&format!("\"{name}\"")).count();
            assert!(own_names > 0, "{name} does not pass its name on");
            let others = body.matches("\"umbo_").count() - own_names;
            assert_eq!(others, 0, "{name} passes another function's name on");
            seen += 1;
        }
    }
    // Of the others `#[c_call]` passes the name on.
    assert!(seen > 2, "only {seen} functions were found");
}

#[test]
fn the_core_has_no_names_of_c_functions() {
    let _alone = alone();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let crates: Vec<String> = fs::read_dir(&root)
        .expect("the folder of crates can be read")
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().replace('-', "_"))
        .collect();
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    // Kernels of GPUs have names of their own, which the table of update rules makes. The generator
    // of the headers is not of the core.
    let apart = [
        "umbo-kernels/src/cuda",
        "umbo-kernels/src/launch",
        "umbo-kernels/src/update/rules.rs",
        "umbo-headers",
    ]
    .map(|file| root.join(file));
    paths.retain(|path| !apart.iter().any(|folder| path.starts_with(folder)));
    assert!(paths.len() > 50, "only {} files were found", paths.len());
    for path in paths {
        let source = fs::read_to_string(&path).expect("the file can be read");
        for (number, line) in source.lines().enumerate() {
            // Names of functions may begin with that of a crate.
            let names = line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let is_of_c = |name: &&str| name.starts_with("umbo_");
            let found = names
                .filter(is_of_c)
                .find(|name| !crates.iter().any(|it| it == name));
            assert_eq!(found, None, "{}:{}: {line}", path.display(), number + 1);
        }
    }
}
