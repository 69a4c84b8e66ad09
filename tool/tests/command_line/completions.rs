//! The completions of command lines.

use std::process::Command;

use crate::program::printed;

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
