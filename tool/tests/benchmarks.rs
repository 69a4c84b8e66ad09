//! The tool's benchmarks, and drawings of what was measured, which need the feature 'plot'.

#![expect(
    clippy::too_many_lines,
    reason = "a scene that is told in one go is read in one go"
)]

mod program;

#[cfg(feature = "plot")]
use std::{fs, path::PathBuf};

use program::{printed, umbo};
use serde_json::Value;
use umbo_core::optimizer::UpdateRule;
use umbo_core::optimizer::rules::catalogue;

#[test]
fn the_benchmark_of_runs_measures_next_to_its_probes() {
    let rows = printed(&[
        "bench",
        "run",
        "--rounds",
        "10",
        "--idle-us",
        "100",
        "--json",
        "--deadline",
    ]);
    let rows: Vec<Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 7);
    for row in &rows {
        assert!(row["samples"].as_u64() >= Some(10), "{row}");
        assert_eq!(row["ratio"].is_null(), row["probe"].is_null(), "{row}");
    }
    assert!(printed(&["bench", "run", "--rounds", "1"]).contains("empty run after a pause"));
}

/// With this test alone on the machine or beside others: how busy they were is in every row.
#[test]
fn benchmarks_say_how_busy_the_machine_was() {
    for arguments in [
        &["bench", "run", "--rounds", "1", "--json"][..],
        &[
            "bench",
            "input",
            "--samples",
            "16",
            "--features",
            "4",
            "--batch",
            "8",
            "--json",
        ],
        &[
            "bench", "gather", "--from", "4K", "--to", "4K", "--rounds", "1", "--json",
        ],
    ] {
        let rows = printed(arguments);
        let rows: Vec<Value> = rows
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        for row in rows {
            assert!(
                row["processors_busy_with_others"].as_f64() >= Some(0.0),
                "{row}"
            );
            let percent = row["percent_of_roof"].as_f64();
            let above = percent.map_or(Value::Null, |percent| Value::Bool(percent > 100.0));
            assert_eq!(row["above_its_probe"], above, "{row}");
        }
    }
    assert!(!printed(&["bench", "gather", "--help"]).contains("The machine was busy"));
}

#[test]
fn the_benchmark_of_workers_compares_numbers_of_threads() {
    let sizes = [
        "--from",
        "4K",
        "--to",
        "8K",
        "--replicas",
        "2",
        "--rounds",
        "1",
    ];
    let arguments = [&["bench", "workers", "--pause-us", "10"], &sizes[..]].concat();
    let lines = printed(&[&arguments[..], &["--json"]].concat());
    let rows: Vec<Value> = lines
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert!(
            row["one_us"].as_f64() > Some(0.0) && row["all_us"].as_f64() > Some(0.0),
            "{row}"
        );
        // So little is never shared.
        assert_eq!(row["percent_shared"], 0.0, "{row}");
    }
    assert!(printed(&arguments).contains("chosen us"));
}

/// The names of the rules that are chosen, with commas between them.
fn rules(is_chosen: fn(&dyn UpdateRule) -> bool) -> String {
    let rules = catalogue::RULES.iter().filter(|rule| !rule.is_variant);
    let chosen = rules.filter(|rule| is_chosen(&*(rule.make)()));
    let names: Vec<&str> = chosen.map(|rule| rule.name).collect();
    names.join(",")
}

#[test]
fn benchmarks_of_memory_measure_next_to_their_probes() {
    for (benchmark, option, value) in [
        ("reduce", "--op", "sum,mean,min,max"),
        ("gather", "--axis", "1"),
        ("update", "--rule", &rules(|_| true)),
        ("rows", "--rule", &rules(|rule| !rule.measures())),
    ] {
        let (first, others) = value.split_once(',').unwrap_or((value, ""));
        let row = [
            "bench",
            benchmark,
            "--replicas",
            "2",
            "--rounds",
            "1",
            "--dtype",
            "float32",
        ];
        let table = [&row[..], &[option, first, "--from", "4K", "--to", "4K"]].concat();
        assert!(printed(&table).contains("% roof"));
        // One of them in both sizes, the others in one.
        let sizes = |from: &str, to: &str| -> Vec<_> {
            let asked = [option, from, "--from", "4K", "--to", to, "--json"];
            let lines = printed(&[&row[..], &asked].concat());
            let rows = lines
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap());
            rows.map(|row| {
                assert_eq!(row["benchmark"], benchmark);
                assert!(row["percent_of_roof"].as_f64() > Some(0.0), "{row}");
                assert_compared(&row);
                row["bytes"].as_u64().unwrap()
            })
            .collect()
        };
        assert_eq!(sizes(first, "8K"), [4096, 8192]);
        if !others.is_empty() {
            assert_eq!(
                sizes(others, "4K"),
                [4096].repeat(others.split(',').count())
            );
        }
    }
}

#[test]
fn the_benchmark_of_devices_compares_replicas_that_share_them_with_others() {
    let asked = [
        "bench",
        "devices",
        "--replicas-in-sync",
        "5",
        "--work-us",
        "20,40",
    ];
    let quick = ["--parameters", "64", "--rounds", "2", "--steps", "3"];
    let asked = [&asked[..], &quick].concat();
    let object: Value =
        serde_json::from_str(&printed(&[&asked[..], &["--json"]].concat())).unwrap();
    assert_eq!(
        object["gradient_bytes"],
        serde_json::json!([2 * 64 * 4, 5 * 64 * 4])
    );
    let rows = object["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let number = |value: &Value| value.as_f64().unwrap();
        assert!(
            number(&row["apart_us"]) > 0.0 && number(&row["shared_us"]) > 0.0,
            "{row}"
        );
        let [low, high] = [0, 1].map(|at| number(&row["times_quartiles"][at]));
        assert!((low..=high).contains(&number(&row["times"])), "{row}");
    }
    assert!(printed(&asked).contains("5 replicas us"));
    let refused = umbo(&[&asked[..], &["--devices", "9"]].concat());
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(2) && message.contains("give 9 or more"),
        "{message}"
    );
}

#[test]
fn the_benchmark_of_the_break_even_compares_one_replica_with_several() {
    let asked = [
        "bench",
        "break-even",
        "--to-us",
        "8",
        "--rounds",
        "2",
        "--steps",
        "3",
    ];
    let lines = printed(&[&asked[..], &["--json"]].concat());
    let rows: Vec<Value> = lines
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let works: Vec<_> = rows
        .iter()
        .map(|row| row["work_us"].as_f64().unwrap())
        .collect();
    assert!(works.is_sorted_by(|one, other| one < other), "{works:?}");
    for row in &rows {
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(
            number("one_us") > 0.0 && number("several_us") > 0.0,
            "{row}"
        );
        assert!(number("ratio_lower_quartile") <= number("ratio"), "{row}");
        assert!(number("ratio") <= number("ratio_upper_quartile"), "{row}");
    }
    assert!(printed(&asked).contains("faster than one"));
}

/// A row says what was measured, what its probe reached, and how the two compare.
fn assert_compared(row: &Value) {
    let number = |name: &str| {
        row[name]
            .as_f64()
            .unwrap_or_else(|| panic!("no {name} in {row}"))
    };
    assert!(number("ours_us") > 0.0 && number("probe_us") > 0.0, "{row}");
    let [low, middle, high] = ["_lower_quartile", "", "_upper_quartile"]
        .map(|which| number(&format!("percent_of_roof{which}")));
    assert!(0.0 < low && low <= middle && middle <= high, "{row}");
}

#[cfg(feature = "plot")]
#[test]
fn benchmarks_are_drawn() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let memory = [
        "--replicas",
        "2",
        "--rounds",
        "1",
        "--from",
        "4K",
        "--to",
        "8K",
    ];
    let input = [
        "--samples",
        "16",
        "--features",
        "4",
        "--batch",
        "8",
        "--rounds",
        "1",
    ];
    for (benchmark, options, parts) in [
        (
            "reduce",
            &memory[..],
            &["SUM, replicas 2", "float32", "8.0 KiB", "GB/s"][..],
        ),
        (
            "gather",
            &memory,
            &["float32, row 256", "axis 1, replicas 2", "GB/s"],
        ),
        (
            "update",
            &memory,
            &[
                "float32, gradient float32, copy none, clip false, average false, variables 1",
                "adamw, replicas 2",
            ],
        ),
        (
            "rows",
            &memory,
            &["float32, width 64", "adamw, replicas 2", "GB/s"],
        ),
        (
            "run",
            &["--rounds", "1", "--idle-us", "10"],
            &["all-reduce of a number", "microseconds"],
        ),
        (
            "input",
            &input,
            &["library", "batches of 8", "microseconds"],
        ),
    ] {
        let file = folder.join(format!("{benchmark}.svg"));
        let name = file.to_str().unwrap();
        let printed =
            printed(&[&["bench", benchmark], options, &["--json", "--plot", name]].concat());
        let rows: Vec<Value> = printed
            .lines()
            .map(|row| serde_json::from_str(row).unwrap())
            .collect();
        assert!(
            rows.iter().all(|row| row["benchmark"] == benchmark),
            "{printed}"
        );
        // In the benchmark of runs, the first two rows are the probes.
        let compared = rows
            .iter()
            .filter(|row| benchmark != "run" || !row["probe"].is_null());
        assert!(compared.inspect(|row| assert_compared(row)).count() > 0);
        let drawing = fs::read_to_string(&file).unwrap();
        assert!(
            drawing.starts_with("<svg") && drawing.contains("</svg>"),
            "{drawing}"
        );
        for part in parts {
            assert!(drawing.contains(part), "no {part} in {drawing}");
        }
    }
}

/// A history with the columns that the demonstration writes.
#[cfg(feature = "plot")]
#[test]
fn the_history_of_the_demonstration_is_drawn() {
    let source = include_str!("../../c_examples/03_train_fashion_mnist/history.c");
    let names = source
        .split("fputs(\"")
        .nth(1)
        .unwrap()
        .split("\\n")
        .next()
        .unwrap();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("history.csv");
    let rows = "1,0.5,0.8,0.45,0.82,1.5,40000\n2,0.4,0.85,0.4,0.84,1.4,42857\n";
    fs::write(&file, format!("{names}\n{rows}")).unwrap();
    let name = file.to_str().unwrap();
    let said = printed(&["plot", name]);
    let expected = "history.svg: loss, test_loss, accuracy, test_accuracy over epoch, 2 rows\n";
    assert!(said.ends_with(expected), "{said}");
    let drawing = fs::read_to_string(file.with_extension("svg")).unwrap();
    assert!(
        drawing.contains("test_accuracy") && !drawing.contains("seconds"),
        "{drawing}"
    );

    let other = file.with_file_name("speed.svg");
    let options = [
        "--columns",
        "seconds,samples_per_second",
        "-o",
        other.to_str().unwrap(),
    ];
    assert!(printed(&[&["plot", name], &options[..]].concat()).contains("speed.svg: seconds, sam"));
    for (options, status, problem) in [
        (
            ["--columns", "lost"],
            1,
            "no column 'lost'; there are loss, accuracy, test_loss",
        ),
        (["--output", "x.pdf"], 2, "one that ends in .svg"),
    ] {
        let refused = umbo(&[&["plot", name], &options[..]].concat());
        let message = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.status.code() == Some(status) && message.contains(problem),
            "{message}"
        );
    }
}

#[test]
fn the_benchmark_of_updates_counts_the_bytes_of_what_is_asked_for() {
    let traffic = |narrow: &[&str]| {
        let row = [
            "bench",
            "update",
            "--rule",
            "adam",
            "--replicas",
            "2",
            "--rounds",
            "1",
        ];
        let sizes = ["--from", "4K", "--to", "4K", "--json"];
        let line = printed(&[&row[..], &sizes, narrow].concat());
        let row: Value = serde_json::from_str(&line).unwrap();
        assert!(row["percent_of_roof"].as_f64() > Some(0.0));
        row["traffic_bytes"].as_u64()
    };
    assert_eq!(traffic(&[]), Some(1024 * (2 * 4 + 24)));
    assert_eq!(traffic(&["--clip"]), Some(1024 * (2 * 4 + 2 * 4 + 24)));
    // The sum is written and read.
    assert_eq!(
        traffic(&["--clip", "--replicas", "8"]),
        Some(1024 * (8 * 4 + 2 * 4 + 24))
    );
    assert_eq!(
        traffic(&["--copy", "float16"]),
        Some(1024 * (2 * 4 + 24 + 2))
    );
    let narrow = ["--gradient", "bfloat16", "--copy", "bfloat16"];
    assert_eq!(traffic(&narrow), Some(1024 * (2 * 2 + 24 + 2)));
    assert!(
        !umbo(&["bench", "update", "--copy", "float32"])
            .status
            .success()
    );
}
