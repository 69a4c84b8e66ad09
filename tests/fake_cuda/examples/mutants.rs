//! Changes the PTX that a test program loads, in one small way at a time, and says which changes
//! none of its tests notices.
//!
//! `mutants PTX TEST_PROGRAM COUNT SEED MINUTES TESTS LIST`: COUNT changes are drawn by chance. A change
//! is shown to the tests that launch its kernel, the fastest first; TESTS is a part of the names of
//! those that may. LIST names the changes that make no difference, each group under the reason. It fails
//! for a change that nothing notices and that is not listed, and for one that is listed and noticed, or is
//! not there any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use fake_cuda::mutate::{Mutant, mutants};

struct Test {
    name: String,
    takes: Duration,
    kernels: BTreeSet<String>,
}

/// Longer than any test takes, with changes that make kernels endless cut short by the driver.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs one test; whether it passed.
fn passes(program: &Path, test: &str, environment: &[(&str, &Path)]) -> bool {
    let mut child = Command::new(program)
        .args([test, "--exact"])
        .envs(environment.iter().copied())
        .env("FAKE_CUDA_BRANCHES", "300000000")
        .env("FAKE_CUDA_QUIET", "1")
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test program can be run");
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status.success();
        }
        if start.elapsed() > PATIENCE {
            // A test that hangs has noticed; that it cannot be killed is no reason to stop.
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// All tests that launch kernels, the fastest first.
fn tests(program: &Path, folder: &Path, wanted: &str) -> Vec<Test> {
    let list = Command::new(program).arg("--list").output().expect("the test program can be run");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let file = folder.join("launched");
    let mut found = vec![];
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    for name in names.filter(|name| name.contains(wanted)) {
        let _ = fs::remove_file(&file);
        let start = Instant::now();
        assert!(passes(program, name, &[("FAKE_CUDA_LAUNCHED", &file)]), "{name} fails by itself");
        let takes = start.elapsed();
        let launched = fs::read_to_string(&file).unwrap_or_default();
        let kernels: BTreeSet<String> = launched.lines().map(String::from).collect();
        if !kernels.is_empty() {
            println!("{name}: {} kernels, {takes:.1?}", kernels.len());
            found.push(Test { name: name.into(), takes, kernels });
        }
    }
    found.sort_by_key(|test| test.takes);
    found
}

/// For each line of a text the kernel that it belongs to, and its number within that, from 1.
fn owners(text: &str) -> Vec<(String, usize)> {
    let (mut owner, mut number) = (String::new(), 0);
    text.lines()
        .map(|line| {
            number += 1;
            if let Some((_, rest)) = line.split_once(".entry") {
                (owner, number) = (rest.split('(').next().unwrap_or("").trim().into(), 1);
            }
            (owner.clone(), number)
        })
        .collect()
}

/// A change as the list of those names it that make no difference: `KERNEL LINE: BEFORE -> AFTER`, with the
/// number of the line within the kernel.
fn name(mutant: &Mutant, (kernel, line): &(String, usize)) -> String {
    let blanks = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let after = if mutant.after.is_empty() { "nothing".into() } else { blanks(&mutant.after) };
    format!("{kernel} {line}: {} -> {after}", blanks(&mutant.before))
}

/// The names in a list, whose other lines begin with `#`.
fn listed(path: &str) -> Vec<String> {
    let text = fs::read_to_string(path).expect("the list can be read");
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(String::from).collect()
}

/// The changed texts are shown to these tests.
struct Trial<'a> {
    text: &'a str,
    program: &'a Path,
    tests: &'a [Test],
    changed: PathBuf,
}

impl Trial<'_> {
    /// The first test of the kernel that notices a change.
    fn noticed_by(&self, mutant: &Mutant, kernel: &str) -> Option<&Test> {
        fs::write(&self.changed, mutant.apply(self.text)).expect("changed PTX can be written");
        let mut concerned = self.tests.iter().filter(|test| test.kernels.contains(kernel));
        let changed = [("FAKE_CUDA_MODULE", self.changed.as_path())];
        concerned.find(|test| !passes(self.program, &test.name, &changed))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [ptx, program, count, seed, minutes, wanted, list] = arguments.as_slice() else {
        eprintln!("mutants PTX TEST_PROGRAM COUNT SEED MINUTES TESTS LIST");
        return ExitCode::from(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let end = Instant::now().checked_add(Duration::from_secs(number(minutes) * 60));
    let text = fs::read_to_string(ptx).expect("the PTX can be read");
    let folder = env::temp_dir().join(format!("fake-cuda-mutants-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for changed PTX can be made");
    let program = PathBuf::from(program);
    let tests = tests(&program, &folder, wanted);
    let owners = owners(&text);
    let mut all: Vec<Mutant> = mutants(&text);
    println!("{} changes are possible", all.len());

    let trial = Trial {
        text: &text,
        program: &program,
        tests: &tests,
        changed: folder.join("changed.ptx"),
    };
    let owner = |mutant: &Mutant| &owners[mutant.line - 1];
    let mut wrong = 0;
    let listed = listed(list);
    for entry in &listed {
        match all.iter().find(|mutant| name(mutant, owner(mutant)) == *entry) {
            None => {
                wrong += 1;
                println!("LISTED, AND NO CHANGE OF THIS PTX: {entry}");
            }
            Some(mutant) => {
                if let Some(test) = trial.noticed_by(mutant, &owner(mutant).0) {
                    wrong += 1;
                    println!("LISTED, AND NOTICED BY {}: {entry}", test.name);
                }
            }
        }
    }

    let mut state = number(seed) | 1;
    let mut by_test: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut tried, mut known, mut idle) = (0, 0, BTreeSet::new());
    while tried < number(count) && !all.is_empty() && end.is_none_or(|end| Instant::now() < end) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let pick = ((state >> 11) % all.len() as u64) as usize;
        let mutant = all.swap_remove(pick);
        let (kernel, entry) = (&owner(&mutant).0, name(&mutant, owner(&mutant)));
        tried += 1;
        if listed.contains(&entry) {
            known += 1;
            continue;
        }
        if !tests.iter().any(|test| test.kernels.contains(kernel)) {
            idle.insert(kernel.clone());
        }
        match trial.noticed_by(&mutant, kernel) {
            Some(test) => *by_test.entry(&test.name).or_default() += 1,
            None => {
                wrong += 1;
                println!("NOT NOTICED, NOR LISTED: {entry}");
            }
        }
    }
    println!("changes tried: {tried}, of which {known} are listed as making no difference");
    println!("kernels that no test launches: {idle:?}");
    by_test.iter().for_each(|(test, count)| println!("  {count} first noticed by {test}"));
    // What is left in the system's folder for temporary files harms nobody.
    let _ = fs::remove_dir_all(&folder);
    if wrong > 0 {
        println!("{wrong} changes are to be looked at: a test is missing, or a line of {list}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
