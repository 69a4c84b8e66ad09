//! Where messages go when nobody has asked for them: each process here has an environment of its
//! own.

use std::ffi::{CStr, c_char, c_void};
use std::process::Command;
use std::ptr;

use umbo::*;

use crate::calls::{made, ok, refused};

unsafe extern "C-unwind" fn to_output(_: umbo_log_level, text: *const c_char, _: *mut c_void) {
    // SAFETY: the text lives as long as the call.
    let text = unsafe { CStr::from_ptr(text) };
    println!("sink: {}", text.to_string_lossy());
}

/// Makes a strategy, of which there is something to say at the level of information. Releases a
/// tensor three times, and a dataset twice.
fn release_too_often() {
    // SAFETY: outputs are variables. The library notices handles that are none any more.
    unsafe {
        let strategy = made(|out| umbo_strategy_create(ptr::null(), out));
        umbo_release(strategy.cast(), UMBO_HANDLE_STRATEGY);
        let tensor = made(|out| {
            umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, [4].as_ptr(), ptr::null(), out)
        });
        let value = made(|out| umbo_value_from_tensor(tensor, out));
        let dataset = made(|out| umbo_dataset_from_tensor_slices(value, out));
        (0..3).for_each(|_| umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR));
        (0..2).for_each(|_| umbo_release(dataset.cast(), UMBO_HANDLE_DATASET));
        umbo_release(value.cast(), UMBO_HANDLE_VALUE);
    }
}

/// Does nothing but in a process that `lines` makes.
#[test]
fn child() {
    if std::env::var_os("IS_CHILD").is_none() {
        return;
    }
    // SAFETY: the function needs no data.
    let set = |callback| unsafe {
        ok(umbo_set_log_callback(
            UMBO_LOG_WARNING,
            callback,
            ptr::null_mut(),
            None,
        ));
    };
    // SAFETY: as above.
    let unknown = unsafe { umbo_set_log_callback(9, Some(to_output), ptr::null_mut(), None) };
    refused(unknown, UMBO_STATUS_INVALID_ARGUMENT, &["level"]);
    release_too_often();
    if std::env::var_os("WITH_SINK").is_some() {
        set(Some(to_output));
        release_too_often();
        set(None);
        release_too_often();
    }
}

/// The lines of a process: on standard error, and of its callback.
fn lines(environment: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "default_log::child"]);
    command
        .env_remove("UMBO_LOG")
        .env("IS_CHILD", "1")
        .envs(environment.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines_of = |bytes: Vec<u8>, start: &str| {
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .filter(|line| line.starts_with(start))
            .map(str::to_owned)
            .collect()
    };
    (
        lines_of(output.stderr, "umbo: "),
        lines_of(output.stdout, "sink: "),
    )
}

#[test]
fn warnings_and_errors_go_to_standard_error_once() {
    let (printed, _) = lines(&[]);
    assert_eq!(printed.len(), 2, "{printed:?}");
    for (line, argument) in printed.iter().zip(["tensor", "dataset"]) {
        let start = format!("umbo: ERROR: umbo_release: {argument}: the handle was released");
        assert!(line.starts_with(&start), "{line}");
    }
}

#[test]
fn the_environment_turns_them_off_or_has_all_printed() {
    for off in ["off", "none", "0", ""] {
        assert_eq!(lines(&[("UMBO_LOG", off)]).0, [""; 0], "{off}");
    }
    for (on, informs) in [("error", 0), ("warning", 0), ("info", 1), ("debug", 1)] {
        let (printed, _) = lines(&[("UMBO_LOG", on)]);
        let count = |start: &str| {
            printed
                .iter()
                .filter(|line| line.starts_with(start))
                .count()
        };
        let counts = (count("umbo: ERROR"), count("umbo: INFO: strategy"));
        assert_eq!(counts, (3, informs), "{on}: {printed:?}");
    }
    // What makes no sense is as if it were not there, and said first.
    let (printed, _) = lines(&[("UMBO_LOG", "loud")]);
    let is_told = printed[0].contains("UMBO_LOG is 'loud'; off, error, warning");
    assert!(printed.len() == 3 && is_told, "{printed:?}");
}

#[test]
fn instructions_that_there_are_not_are_noted() {
    for (given, printed) in [("baseline", 2), ("", 2), ("avx-2", 3), ("nonsense", 3)] {
        let (lines, _) = lines(&[("UMBO_INSTRUCTION_SET", given)]);
        assert_eq!(lines.len(), printed, "{lines:?}");
        if printed == 3 {
            let start =
                format!("umbo: WARNING: UMBO_INSTRUCTION_SET is '{given}', which is not known");
            assert!(lines[0].starts_with(&start), "{lines:?}");
        }
    }
}

#[test]
fn a_callback_gets_all_of_them() {
    let (printed, received) = lines(&[("WITH_SINK", "1")]);
    // What was printed before is not printed again without the callback.
    assert_eq!(
        (printed.len(), received.len()),
        (2, 3),
        "{printed:?} {received:?}"
    );
    let (printed, received) = lines(&[("WITH_SINK", "1"), ("UMBO_LOG", "off")]);
    assert_eq!(
        (printed.len(), received.len()),
        (0, 0),
        "{printed:?} {received:?}"
    );
    let (printed, received) = lines(&[("WITH_SINK", "1"), ("UMBO_LOG", "error")]);
    assert_eq!(
        (printed.len(), received.len()),
        (6, 3),
        "{printed:?} {received:?}"
    );
    // The environment's level counts for the callback, too.
    let (printed, received) = lines(&[("WITH_SINK", "1"), ("UMBO_LOG", "info")]);
    assert_eq!(
        (printed.len(), received.len()),
        (8, 4),
        "{printed:?} {received:?}"
    );
}
