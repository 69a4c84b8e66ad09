//! Command lines of the tool: what is refused and how, helps, completions, files, and what commands
//! print. The drawings need the feature 'plot', which is on by default.

#![expect(
    clippy::too_many_lines,
    reason = "a scene that is told in one go is read in one go"
)]

mod completions;
#[cfg(feature = "plot")]
mod files;
mod helps;
#[path = "../program/mod.rs"]
mod program;

use program::{printed, umbo};
use serde_json::Value;

#[test]
fn help_and_version() {
    assert!(printed(&["--help"]).contains("umbo COMMAND"));
    assert!(printed(&["devices", "--help"]).contains("--logical-cpus"));
    assert!(printed(&["doctor", "-h"]).contains("umbo doctor"));
    assert_eq!(
        printed(&["--version"]),
        format!("umbo {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn wrong_command_lines_are_explained() {
    let drawn_as_svg = if cfg!(feature = "plot") {
        "ends in .svg"
    } else {
        "'plot'"
    };
    for (arguments, problem) in [
        (&[][..], "which command?"),
        (
            &["train"],
            "unknown command 'train'; there are bench, completions, devices, doctor, plot",
        ),
        (
            &["devices", "--colour"],
            "'umbo devices' has --logical-cpus, --json, --help",
        ),
        (
            &["bench", "rows", "--colour"],
            "Try 'umbo bench rows --help'",
        ),
        (&["completions", "fish"], "'fish'; there are bash, zsh"),
        (&["completions"], "which shell? There are bash, zsh"),
        (
            &["completions", "bash", "zsh"],
            "'zsh' is one shell too many",
        ),
        (&["devices", "extra"], "extra"),
        (&["doctor", "--json=yes"], "yes"),
        (&["bench"], "which benchmark?"),
        (
            &["bench", "walk"],
            "unknown benchmark 'walk'; there are run, reduce, gather, input",
        ),
        (&["bench", "run", "--plot", "x.jpg"], drawn_as_svg),
        (&["bench", "run", "--plot", "x.jpg"], drawn_as_svg),
        (
            &["bench", "reduce", "--from", "8M", "--to", "4M"],
            "--to: 4M is less than --from, 8M",
        ),
        (
            &["bench", "exchange", "--from", "8M", "--to", "4M"],
            "--to: 4M is less than --from, 8M",
        ),
        (
            &["bench", "update", "--variables", "17", "--from", "64"],
            "17 do not fit in 64 bytes",
        ),
        (
            &["bench", "update", "--copy", "float16", "--dtype", "float64"],
            "leave --dtype out",
        ),
        (
            &["bench", "reduce", "--device", "CPU:7"],
            "--device: 'CPU:7' is not possible here; give CPU:0",
        ),
        (
            &["bench", "workers", "--plot", "x.svg"],
            "'umbo bench workers' has --dtype",
        ),
        (&["bench", "run", "--plot"], "--plot"),
        (
            &["bench", "run", "--plot", ""],
            "--plot: '' is not the name of a file",
        ),
        (
            &["bench", "break-even", "--to-us", "8", "--from-us", "9"],
            "--to-us: 8 is less than --from-us, 9; give at least as much",
        ),
        (&["doctor", "--bytes", "64K"], "--bytes is for --gpu"),
        (&["doctor", ""], "'' is not the name of a file"),
        (&["plot"], "which file?"),
        (
            &["plot", "a.csv", "--columns", "a", "--columns", "b"],
            "--columns is there twice",
        ),
    ] {
        assert_refused(arguments, problem);
    }
}

/// A wrong command line is told at once: nothing else is said, and nothing has been measured.
#[track_caller]
pub(crate) fn assert_refused(arguments: &[&str], problem: &str) {
    let output = umbo(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(
        message.starts_with("umbo: ") && message.contains(problem),
        "{arguments:?}: {message}"
    );
    assert!(
        !message.contains("processors:"),
        "the machine was looked at before: {message}"
    );
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

#[test]
fn devices_as_a_table() {
    let text = printed(&["devices", "--logical-cpus", "3"]);
    for name in [
        "CPU:0",
        "CPU:1",
        "/job:localhost/replica:0/task:0/device:CPU:2",
    ] {
        assert!(text.contains(name), "no {name} in:\n{text}");
    }
    assert!(!text.contains("CPU:3"), "{text}");
}

#[test]
fn devices_as_json() {
    let devices: Value = serde_json::from_str(&printed(&["devices", "--json"])).unwrap();
    let physical = &devices["physical"];
    let logical = &devices["logical"];
    assert_eq!(physical[0]["name"], "CPU:0");
    assert!(physical[0]["total_bytes"].as_u64() > Some(0));
    assert_eq!(
        logical[0]["canonical_name"],
        "/job:localhost/replica:0/task:0/device:CPU:0"
    );
    // One logical CPU has all processors.
    assert_eq!(logical[0]["processors"], physical[0]["processors"]);
    let gpus = logical
        .as_array()
        .unwrap()
        .iter()
        .filter(|each| each["kind"] == "GPU")
        .count();
    assert_eq!(gpus == 0, devices["no_gpu_because"].is_string());
}

#[test]
fn the_doctor_gives_a_verdict() {
    let output = umbo(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.success(), report["ok"].as_bool().unwrap());
    let findings = report["findings"].as_array().unwrap();
    let has = |subject: &str| findings.iter().any(|each| each["subject"] == subject);
    for subject in [
        "version",
        "processors",
        "thread binding",
        "memory",
        "huge pages",
        "GPUs",
    ] {
        assert!(has(subject), "no {subject} in {report}");
    }
    let text = String::from_utf8(umbo(&["doctor"]).stdout).unwrap();
    assert!(text.contains("thread binding"), "{text}");
}
