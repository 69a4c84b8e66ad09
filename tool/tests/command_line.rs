//! Command lines of the tool: what is refused and how, helps, completions, files, and what commands
//! print. The drawings need the feature 'plot', which is on by default.

#![expect(
    clippy::too_many_lines,
    reason = "a scene that is told in one go is read in one go"
)]

mod program;

use std::process::Command;
#[cfg(feature = "plot")]
use std::{fs, path::PathBuf};

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
fn assert_refused(arguments: &[&str], problem: &str) {
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

/// The command lines of all commands and benchmarks, with their helps.
fn helps() -> Vec<(Vec<String>, String)> {
    let listed = |help: &str, title: &str| -> Vec<String> {
        let lines = help.split(title).nth(1).unwrap().lines();
        let lines = lines.take_while(|line| !line.is_empty());
        lines
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    let mut places = vec![Vec::new()];
    places.extend(
        listed(&printed(&["--help"]), "Commands:\n")
            .into_iter()
            .map(|name| vec![name]),
    );
    let benchmarks = listed(&printed(&["bench", "--help"]), "Benchmarks:\n");
    places.extend(
        benchmarks
            .into_iter()
            .map(|name| vec!["bench".to_owned(), name]),
    );
    let with_help = |place: Vec<String>| {
        let words: Vec<&str> = place.iter().map(String::as_str).chain(["--help"]).collect();
        let help = printed(&words);
        (place, help)
    };
    places.into_iter().map(with_help).collect()
}

/// An option that takes a value, as a help describes it.
struct Described {
    name: String,
    value: String,
    text: String,
}

impl Described {
    /// The text in parentheses up to a semicolon: `1 to 1024`.
    fn range(&self) -> Option<(&str, &str)> {
        let groups = self
            .text
            .split('(')
            .skip(1)
            .filter_map(|rest| rest.split([')', ';']).next());
        groups.filter_map(|group| group.split_once(" to ")).next()
    }

    /// Whether its numbers need not be whole ones.
    fn takes_fractions(&self) -> bool {
        let units = ["-ms", "-us", "-mb", "-gbs", "gbits", "overlap"];
        let counted = ["--idle-us", "--pause-us"].contains(&self.name.as_str())
            || self.name == "--work-us" && self.value == "N";
        units.iter().any(|unit| self.name.ends_with(unit)) && !counted
    }

    /// Arguments outside of a range: less than its least, more than its most, and what is not such
    /// a number at all.
    fn outside(&self, least: &str, most: &str) -> Vec<String> {
        let split = |text: &str| {
            let digits = text.trim_end_matches(['K', 'M', 'G']);
            (
                digits.parse::<f64>().unwrap(),
                text[digits.len()..].to_owned(),
            )
        };
        let (least, _) = split(least);
        let (most, unit) = split(most);
        let mut wrong = [
            "-1",
            "NaN",
            "inf",
            "",
            "some",
            "1e400",
            "99999999999999999999999",
        ]
        .map(str::to_owned)
        .to_vec();
        wrong.push(format!("{}{unit}", most + 1.0));
        if least > 0.0 {
            wrong.push("0".to_owned());
        }
        if least > 1.0 {
            wrong.push("1".to_owned());
        }
        if !self.takes_fractions() {
            wrong.push("1.5".to_owned());
        }
        wrong
    }

    /// The list behind "some of:" or "one of:", with commas between.
    fn choices(&self) -> Option<String> {
        let list = ["some of: ", "one of: "];
        let (_, rest) = list
            .iter()
            .find_map(|before| self.text.split_once(before))?;
        Some(rest.split(" (").next().unwrap().replace(", ", ","))
    }
}

fn options_with_values(help: &str) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    let mut is_one = false;
    for line in help
        .lines()
        .skip_while(|line| !line.starts_with("Options:"))
        .skip(1)
    {
        let line = line.trim();
        if line.starts_with('-') {
            let (head, text) = line.split_once("  ").unwrap();
            let words: Vec<&str> = head.split_whitespace().collect();
            let name = words
                .iter()
                .position(|word| word.starts_with("--"))
                .unwrap();
            is_one = name + 1 < words.len();
            if is_one {
                let [name, value] = [words[name], words[name + 1]].map(str::to_owned);
                all.push(Described {
                    name,
                    value,
                    text: text.trim().to_owned(),
                });
            }
        } else if is_one && !line.is_empty() {
            let last = all.last_mut().unwrap();
            last.text += " ";
            last.text += line;
        }
    }
    all
}

/// Every option that takes numbers says in its help which, and refuses all others with the same
/// words; so does every option that takes one of some names.
#[test]
fn values_that_are_not_possible_are_refused_with_those_that_are() {
    let mut numbers = 0;
    let mut names = 0;
    for (place, help) in helps() {
        for option in options_with_values(&help) {
            let place: Vec<&str> = place.iter().map(String::as_str).collect();
            let refused = |value: &str, expected: &str| {
                let expected = format!(
                    "{}: '{value}' is not possible here; give {expected}",
                    option.name
                );
                assert_refused(&[&place[..], &[&option.name, value]].concat(), &expected);
            };
            if let Some((least, most)) = option.range() {
                numbers += 1;
                let expected = match least.chars().chain(most.chars()).last() {
                    Some('K' | 'M' | 'G') => "a size such as 4096, 4K or 1G,",
                    _ if option.takes_fractions() => "a number",
                    _ => "a whole number",
                };
                for wrong in option.outside(least, most) {
                    refused(&wrong, &format!("{expected} from {least} to {most}"));
                }
            } else if let Some(choices) = option.choices() {
                names += 1;
                let how_many = if option.value == "LIST" {
                    "some"
                } else {
                    "one"
                };
                for wrong in ["", "none", "-1"] {
                    refused(wrong, &format!("{how_many} of {choices}\n"));
                }
            } else {
                // Files, the name of a device, and columns that only the file knows.
                let free =
                    ["FILE", "NAME"].contains(&option.value.as_str()) || option.name == "--columns";
                assert!(
                    free,
                    "the help of {place:?} does not say what {} can be",
                    option.name
                );
            }
        }
    }
    assert!(
        numbers > 50 && names > 12,
        "{numbers} options of numbers, {names} of names"
    );
}

/// Options stand below each other in every help, and what they are for, too.
#[test]
fn helps_have_columns() {
    for (place, help) in helps() {
        let mut columns = std::collections::BTreeMap::new();
        let mut part = "";
        for line in help.lines() {
            if line.ends_with(':') && !line.starts_with(' ') {
                part = line;
            }
            let name = line.trim_start();
            let indentation = line.len() - name.len();
            let is_entry = part != "Options:" && line.starts_with("  ") && !part.is_empty();
            let expected = if name.starts_with("--") { 6 } else { 2 };
            if name.starts_with('-') || is_entry {
                assert_eq!(indentation, expected, "{place:?}: {line}");
                let text = name
                    .find("  ")
                    .map(|at| indentation + at + name[at..].len() - name[at..].trim_start().len());
                let first = *columns.entry(part).or_insert(text);
                assert_eq!(text, first, "{place:?}: {line}");
            }
            assert!(line.len() <= 120, "{place:?}: {line}");
        }
    }
}

/// A file that cannot be read or written is named, and is not a mistake of the command line.
#[cfg(feature = "plot")]
#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [history, uneven, trace] = ["named.csv", "uneven.csv", "named.json"]
        .map(|name| folder.join(name).to_str().unwrap().to_owned());
    fs::write(&history, "epoch,loss\n1,0.5\n").unwrap();
    fs::write(&uneven, "epoch,loss\n1,0.5\n2,0.4,7\n").unwrap();
    let step =
        "{\"name\":\"step\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}";
    fs::write(&trace, format!("[\n{step}\n]\n")).unwrap();
    let nowhere = "no/such/folder/a.svg";
    let missing = format!("{nowhere}: No such file");
    let no_folder = "'no/such/folder': the folder to write to: No such file";
    for (arguments, problem) in [
        (
            &["trace", nowhere, "--html", "x.html", "--plot", "x.svg"][..],
            missing.as_str(),
        ),
        (&["doctor", nowhere], &missing),
        (&["doctor", nowhere, "--json"], &missing),
        (
            &["plot", "no/such/folder/a.csv"],
            "no/such/folder/a.csv: No such file",
        ),
        (&["trace", &trace, "--html", nowhere], no_folder),
        (&["trace", &trace, "--plot", nowhere], no_folder),
        (&["plot", &history, "-o", nowhere], no_folder),
        (&["bench", "run", "--plot", nowhere], no_folder),
        (&["bench", "run", "--plot", nowhere], no_folder),
        (&["bench", "reduce", "--plot", nowhere], no_folder),
        (&["bench", "break-even", "--plot", nowhere], no_folder),
        (
            &["trace", &history, "--html", "x.html"],
            "named.csv: the first line is not '['",
        ),
        (
            &["trace", &trace, "--plot", "x.svg", "--step", "9"],
            "named.json: it has no step 9",
        ),
        (
            &["plot", &uneven],
            "uneven.csv: line 3 has 3 values, but the first line names 2 columns",
        ),
        (&["plot", "."], ".: Is a directory"),
    ] {
        let output = umbo(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.starts_with("umbo: ") && message.contains(problem),
            "{arguments:?}: {message}"
        );
        // Once, without a word of other command lines.
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    for (arguments, option) in [
        (&["trace", &trace, "--plot", "x.jpg"][..], "ends in .svg"),
        (&["plot", &history, "-o", "x.jpg"], "ends in .svg"),
    ] {
        assert_refused(arguments, option);
    }
}

/// Drawings and pages replace files as a whole, through links, and nothing but files.
#[cfg(feature = "plot")]
#[test]
fn outputs_are_files() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("outputs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("folder.svg")).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("history.csv"), "epoch,loss\n1,0.5\n").unwrap();
    let step = r#"{"name":"step","cat":"step","ph":"X","pid":1,"tid":1,"ts":1,"dur":2}"#;
    fs::write(path("trace.json"), format!("[\n{step}\n]\n")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(path("pipe.svg"))
            .status()
            .unwrap()
            .success()
    );
    fs::write(path("target.svg"), "old").unwrap();
    for (link, target) in [("link.svg", "target.svg"), ("piped.svg", "pipe.svg")] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
    }
    for command in [
        ["plot", "history.csv", "-o"],
        ["trace", "trace.json", "--html"],
    ] {
        let [command, input, option] = command;
        for refused in ["pipe.svg", "piped.svg", "folder.svg"] {
            let output = umbo(&[command, &path(input), option, &path(refused)]);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                output.status.code(),
                Some(1),
                "{command}, {refused}: {message}"
            );
            assert!(message.contains(refused), "{command}, {refused}: {message}");
        }
        fs::write(path("target.svg"), "old").unwrap();
        let output = umbo(&[command, &path(input), option, &path("link.svg")]);
        assert!(output.status.success(), "{command}");
        assert!(
            fs::symlink_metadata(path("link.svg")).unwrap().is_symlink(),
            "{command}"
        );
        assert_ne!(
            fs::read_to_string(path("target.svg")).unwrap(),
            "old",
            "{command}"
        );
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 7);
}

/// Nothing is written over what a command reads, by whatever name it goes.
#[cfg(feature = "plot")]
#[test]
fn output_must_differ_from_input() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kept");
    fs::create_dir_all(&folder).unwrap();
    let [file, link, page] = ["kept.svg", "link.svg", "page.svg"].map(|name| {
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        path.to_str().unwrap().to_owned()
    });
    let around = folder.join("../kept/kept.svg");
    let around = around.to_str().unwrap();
    let trace = "[\n]\n";
    let history = "epoch,loss\n1,0.5\n";
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::write(&file, trace).unwrap();
    for name in [&file, &link, around] {
        for option in ["--html", "--plot"] {
            assert_refused(
                &["trace", &file, option, name],
                "is the trace itself; give another name",
            );
        }
    }
    assert_refused(
        &["trace", &file, "--html", &page, "--plot", &page],
        "is the page of --html",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), trace);
    fs::write(&file, history).unwrap();
    for output in [
        &["--output", &file][..],
        &["-o", &link],
        &["-o", around],
        &[],
    ] {
        let arguments = [&["plot", &file], output].concat();
        assert_refused(&arguments, "is the history itself; give another name");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), history);
}

/// The completions of bash behind these words, the last of which is not finished. `None` without
/// bash.
fn offered_by_bash(typed: &[&str]) -> Option<Vec<String>> {
    let script = "source <(\"$UMBO\" completions bash) && { _umbo
        for word in \"${COMPREPLY[@]}\"; do printf '%s\\n' \"$word\"; done; }";
    let words: Vec<String> = typed.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "COMP_WORDS=({}); COMP_CWORD={}; {script}",
        words.join(" "),
        typed.len() - 1
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &script])
        .env("UMBO", env!("CARGO_BIN_EXE_umbo"))
        .output()
        .ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn bash_completes_commands_and_options() {
    for (typed, offered) in [
        (&["umbo", "d"][..], &["devices", "doctor"][..]),
        (&["umbo", "bench", "r"], &["run", "reduce", "rows"]),
        (&["umbo", "bench", "rows", "--wi"], &["--width"]),
        (
            &["umbo", "completions", ""],
            &["bash", "zsh", "-h", "--help"],
        ),
        (&["umbo", "devices", "--json", "--log"], &["--logical-cpus"]),
        (&["umbo", "plot", "Cargo.to"], &["Cargo.toml"]),
        (&["umbo", "trace", "Cargo.to"], &["Cargo.toml"]),
        (&["umbo", "doctor", "Cargo.to"], &["Cargo.toml"]),
        (&["umbo", "doctor", ""], &["Cargo.toml", "src", "tests"]),
        (&["umbo", "trace", "x.json", "--h"], &["--html", "--help"]),
        (&["umbo", "plot", "x.csv", "--c"], &["--columns"]),
        (
            &["umbo", "trace", "x.json", "--html", "Cargo.to"],
            &["Cargo.toml"],
        ),
        (
            &["umbo", "plot", "x.csv", "-o", "Cargo.to"],
            &["Cargo.toml"],
        ),
        (
            &["umbo", "bench", "rows", "--plot", "Cargo.to"],
            &["Cargo.toml"],
        ),
        (
            &["umbo", "bench", "rows", "--rule", "ada"],
            &["adagrad", "adam", "adamw"],
        ),
        (
            &["umbo", "bench", "rows", "--rule", "sgd,mo"],
            &["sgd,momentum"],
        ),
        (
            &["umbo", "bench", "rows", "--rule", "sgd", "--wi"],
            &["--width"],
        ),
        (
            &["umbo", "bench", "reduce", "--op", ""],
            &["sum", "mean", "min", "max"],
        ),
        (
            &["umbo", "bench", "gather", "--dtype", "b"],
            &["bfloat16", "bool"],
        ),
        (
            &["umbo", "bench", "update", "--copy", ""],
            &["float16", "bfloat16"],
        ),
        (&["umbo", "bench", "update", "--rounds", ""], &[]),
        (&["umbo", "bench", "workers", "--p"], &["--pause-us"]),
    ] {
        match offered_by_bash(typed) {
            Some(mut found) => {
                // Files come in the order of the folder.
                if typed.last() == Some(&"") {
                    found.sort();
                    let mut offered = offered.to_vec();
                    offered.sort();
                    assert_eq!(found, offered, "{typed:?}");
                } else {
                    assert_eq!(found, offered, "{typed:?}");
                }
            }
            None => println!("command_line.bash: SKIPPED: there is no bash"),
        }
    }
    let zsh = printed(&["completions", "zsh"]);
    assert!(zsh.contains("bashcompinit") && zsh.contains("complete -o filenames -F _umbo umbo"));
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
