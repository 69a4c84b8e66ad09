//! `umbo devices` and `umbo doctor --gpu` on the fake driver, and where there is no GPU.

#![expect(
    clippy::too_many_lines,
    reason = "a scene that is told in one go is read in one go"
)]

use std::process::Output;

use serde_json::Value;

fn umbo(arguments: &[&str], devices: &str) -> Output {
    let mut command = fake_cuda::harness::command(env!("CARGO_BIN_EXE_umbo"));
    command
        .args(arguments)
        .env("FAKE_CUDA_DEVICES", devices)
        .output()
        .unwrap()
}

fn text(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn the_report_says_whether_the_bits_are_those_of_the_cpu() {
    let output = umbo(&["doctor", "--gpu", "--bytes", "8K"], "2");
    let report = text(&output);
    assert!(output.status.success(), "{report} {output:?}");
    assert!(output.stderr.is_empty(), "the driver reports: {output:?}");
    for part in [
        "GPU:0: ",
        "GPU:1: ",
        "bits of the CPU: ",
        "comparisons, 0 differ",
        "order under load: 6 comparisons, 0 differ",
        "copy within the GPU: ",
        "AdamW moves ",
        "The bits are those of the CPU",
        "these times are the interpreter's",
    ] {
        assert!(report.contains(part), "'{part}' is not in: {report}");
    }
    let output = umbo(&["doctor", "--gpu", "--bytes", "4K", "--json"], "1");
    let report: Value = serde_json::from_str(text(&output)).unwrap();
    assert_eq!(
        (&report["ok"], &report["gpus"][0]["interpreted"]),
        (&true.into(), &true.into())
    );
    assert!(
        report["gpus"][0]["bits_of_the_cpu"]["comparisons"]
            .as_u64()
            .unwrap()
            > 200
    );
    assert_eq!(
        report["gpus"][0]["bits_of_the_cpu"]["differing"],
        Value::Array(Vec::new())
    );
}

/// Benchmarks run where it is said, and tell of times that say nothing.
#[test]
fn benchmarks_run_on_a_gpu() {
    let small = [
        "--device", "GPU:1", "--from", "4K", "--to", "8K", "--rounds", "2",
    ];
    for (benchmark, more) in [
        (
            "reduce",
            &["--dtype", "float32,bfloat16", "--op", "mean"][..],
        ),
        ("reduce", &["--fresh", "--replicas", "2"]),
        ("update", &["--rule", "sgd,adamw,lamb", "--replicas", "2"]),
        (
            "update",
            &[
                "--clip",
                "--variables",
                "3",
                "--gradient",
                "float16",
                "--replicas",
                "1,4",
            ],
        ),
    ] {
        let arguments = [&["bench", benchmark], &small[..], more].concat();
        let output = umbo(&arguments, "2");
        let table = text(&output);
        // The driver reports there what it finds wrong, benchmarks say that a machine is busy, and
        // the library that it has few processors.
        let said = String::from_utf8_lossy(&output.stderr);
        let is_quiet = said
            .lines()
            .all(|line| line.starts_with("umbo: other processes") || line.contains("take turns"));
        assert!(output.status.success() && is_quiet, "{table} {output:?}");
        assert!(
            table.contains("GPU:1") && table.contains("'Fake CUDA device 1'"),
            "{table}"
        );
        assert!(table.contains("say nothing of a GPU"), "{table}");
        let output = umbo(&[&arguments[..], &["--json"]].concat(), "2");
        for line in text(&output).lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&row["device"], &row["interpreted"]),
                (&"GPU:1".into(), &true.into()),
                "{row}"
            );
            assert!(
                row["ours_us"].as_f64().unwrap() > 0.0 && row["probe_us"].as_f64().unwrap() > 0.0
            );
        }
        assert!(text(&output).lines().count() >= 4);
    }
    for (arguments, part) in [
        (&["bench", "reduce", "--device", "GPU:7"][..], "GPU:7"),
        (
            &["bench", "update", "--device", "GPU:0", "--copy", "float16"],
            "--copy",
        ),
        (&["bench", "gather", "--device", "GPU:0"], "--device"),
    ] {
        let output = umbo(arguments, "1");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn gpus_have_a_model_and_a_capability() {
    let output = umbo(&["devices"], "2");
    let table = text(&output);
    assert!(
        table.contains("GPU:1") && table.contains("compute capability"),
        "{table}"
    );
}

#[test]
fn where_there_is_no_gpu_the_report_says_so() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_umbo"))
        .args(["doctor", "--gpu"])
        .output()
        .unwrap();
    // Unless this machine has one.
    assert!(
        output.status.success() != text(&output).contains("no GPU"),
        "{output:?}"
    );
}

/// A report names defects alone.
#[test]
fn a_gpu_that_is_full_or_too_old_is_said_to_be() {
    let examined = |name: &str, value: &str, arguments: &[&str]| {
        let mut command = fake_cuda::harness::command(env!("CARGO_BIN_EXE_umbo"));
        let output = command.args(arguments).env(name, value).output().unwrap();
        (output.status.code(), text(&output).to_owned())
    };
    let examine = ["doctor", "--gpu", "--bytes", "8M"];
    for (name, value, parts) in [
        (
            "FAKE_CUDA_MEMORY",
            "4000000",
            ["GPU:0: ", "give a --bytes smaller than 8M"],
        ),
        (
            "FAKE_CUDA_CAPABILITY",
            "6.1",
            [
                "compute capability 6.1 is too old: Umbo needs 7.0",
                "too old to be used",
            ],
        ),
    ] {
        let (status, report) = examined(name, value, &examine);
        assert_eq!(status, Some(1), "{report}");
        assert!(parts.iter().all(|part| report.contains(part)), "{report}");
        assert!(!report.contains("report it"), "{report}");
    }
    let (_, table) = examined("FAKE_CUDA_CAPABILITY", "6.1", &["devices"]);
    assert!(
        table.contains("(compute capability 6.1; too old: Umbo needs 7.0"),
        "{table}"
    );
    let (_, devices) = examined("FAKE_CUDA_CAPABILITY", "6.1", &["devices", "--json"]);
    let devices: Value = serde_json::from_str(&devices).unwrap();
    assert_eq!(devices["physical"][1]["too_old"], true);
}
