//! A program with one call of the library left out: it does not compile, or somebody says on standard error
//! what is missing, or nothing is wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const PROGRAM: &str = "c_examples/02_linear_regression.c";

/// Calls without which nothing is wrong, by how they begin, and why.
const FINE: [(&str, &str); 8] = [
    (
        "umbo_strategy_metric(",
        "the training is right; the program prints a struct of its own, of 0 examples",
    ),
    ("umbo_iterator_release(", "the process ends"),
    ("umbo_distributed_dataset_release(", "the process ends"),
    ("umbo_dataset_release(", "the process ends"),
    ("umbo_optimizer_release(", "the process ends"),
    ("umbo_gradients_release(", "the process ends"),
    ("umbo_variable_release(", "the process ends"),
    ("umbo_strategy_release(", "the process ends"),
];

/// Where a call begins, its end, and what stands in its place when it is left out.
struct Call {
    start: usize,
    end: usize,
    instead: &'static str,
}

/// The place behind the parenthesis that closes the one at `open`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, character) in text[open..].char_indices() {
        depth += i32::from(character == '(') - i32::from(character == ')');
        if depth == 0 {
            return open + at + 1;
        }
    }
    panic!("a parenthesis is not closed");
}

/// All calls of functions of the library, in the order of the text.
fn calls(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("umbo_").map(|at| from + at) {
        let name =
            text[at..].find(|character: char| !(character.is_alphanumeric() || character == '_'));
        let open = at + name.unwrap();
        from = open;
        if !text[open..].starts_with('(') || text[..at].ends_with('/') {
            continue;
        }
        let end = closing(text, open);
        let instead = match &text[at..open] {
            "umbo_view_of_memory" | "umbo_view_of_mutable_memory" => "{0}",
            name if name.ends_with("_release") => "(void)0",
            _ => "UMBO_OK",
        };
        calls.push(Call { start: at, end, instead });
    }
    calls
}

struct Workshop {
    folder: PathBuf,
    library: PathBuf,
}

impl Workshop {
    fn new(name: &str) -> Workshop {
        let folder = env::temp_dir().join(format!("umbo-left-out-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // cargo builds it beside the tests; programs ask for it by the name of its interface.
        let beside = env::current_exe().unwrap().with_file_name("libumbo.so");
        let library = folder.join("libumbo.so.0.1");
        std::os::unix::fs::symlink(&beside, &library).unwrap();
        Workshop { folder, library }
    }

    /// What the compiler says of a program.
    fn compile(&self, text: &str, program: &Path) -> Output {
        let source = program.with_extension("c");
        fs::write(&source, text).unwrap();
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
        let mut command = Command::new("cc");
        command.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(include);
        command.arg(source).arg(&self.library).args(["-lm", "-o"]).arg(program);
        command.output().unwrap()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", &self.folder);
        command.env_remove("UMBO_LOG").env_remove("UMBO_STRICT");
        command
    }

    fn run(&self, program: &Path) -> Output {
        self.command(program).output().unwrap()
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The first program of docs/start.md, with single rows in the place of batches.
#[test]
fn the_first_program_without_its_batches() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/start.md")).unwrap();
    let begin = page.find("<!-- file: first.c -->\n```c\n").unwrap() + 28;
    let text = &page[begin..begin + page[begin..].find("\n```").unwrap() + 1];
    let batch = "UMBO_CHECK(umbo_dataset_batch(&dataset, 4, 0));";
    assert!(text.contains(batch) && text.contains("epoch <= 1000"));
    let text = text.replace("epoch <= 1000", "epoch <= 2");
    let workshop = Workshop::new("first");
    for (program, text, words) in [
        ("first", text.clone(), None),
        ("rows", text.replace(batch, ""), Some("nothing has batched")),
    ] {
        let program = workshop.folder.join(program);
        let compiled = workshop.compile(&text, &program);
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let output = workshop.run(&program);
        let complaint = String::from_utf8_lossy(&output.stderr);
        match words {
            None => assert!(complaint.is_empty(), "{complaint}"),
            Some(words) => {
                let is_said = complaint.starts_with("umbo: WARNING: ") && complaint.contains(words);
                assert!(is_said && complaint.lines().count() == 1, "{complaint}");
            }
        }
        for (name, value, says) in [("UMBO_LOG", "off", false), ("UMBO_STRICT", "1", true)] {
            let output = workshop.command(&program).env(name, value).output().unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr);
            match words.filter(|_| says) {
                None => assert!(output.status.success() && complaint.is_empty(), "{complaint}"),
                Some(words) => {
                    assert_eq!(output.status.code(), Some(1), "{complaint}");
                    assert!(
                        complaint.contains("strict mode: ") && complaint.contains(words),
                        "{complaint}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_program_without_one_of_its_calls() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM)).unwrap();
    let workshop = Workshop::new("each");
    let whole = workshop.folder.join("whole");
    let compiled = workshop.compile(&text, &whole);
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let right = workshop.run(&whole);
    let printed = String::from_utf8_lossy(&right.stdout).into_owned();
    assert!(right.status.success() && printed.contains("y = 3.000 x -1.000"), "{right:?}");
    assert!(right.stderr.is_empty(), "{}", String::from_utf8_lossy(&right.stderr));

    let calls = calls(&text);
    let (mut silent, mut fine) = (Vec::new(), Vec::new());
    let (mut refused, mut said) = (0, 0);
    for (number, call) in calls.iter().enumerate() {
        let variant = format!("{}{}{}", &text[..call.start], call.instead, &text[call.end..]);
        let program = workshop.folder.join(format!("without_{number}"));
        let left_out = &text[call.start..call.end];
        if !workshop.compile(&variant, &program).status.success() {
            refused += 1;
            continue;
        }
        let output = workshop.run(&program);
        let (printed, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        match FINE.iter().find(|(begins, _)| left_out.starts_with(begins)) {
            Some((begins, _)) => {
                let is_right = printed.contains("y = 3.000 x -1.000") && complaint.is_empty();
                assert!(output.status.success() && is_right, "{left_out}: {output:?}");
                fine.push(*begins);
            }
            // A crash without a word is none.
            None if complaint.contains("umbo") => said += 1,
            None => silent.push(format!("{left_out}: {:?}\n{printed}{complaint}", output.status)),
        }
    }
    assert!(silent.is_empty(), "nobody says what is missing:\n{}", silent.join("\n"));
    assert_eq!(fine, FINE.map(|(begins, _)| begins), "the list of what is fine");
    assert!(calls.len() >= 26 && refused > 3 && said >= 7, "{} {refused} {said}", calls.len());
}
