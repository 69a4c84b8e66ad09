//! Changes the PTX that a test program loads, in one small way at a time, and says which changes
//! none of its tests notices.
//!
//! `mutants PTX TEST_PROGRAM COUNT SEED [MINUTES [TESTS]]`: COUNT changes are drawn by chance. A change
//! is shown to the tests that launch its kernel, the fastest first; TESTS is a part of the names of
//! those that may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

/// For each line of a text the kernel that it belongs to.
fn owners(text: &str) -> Vec<String> {
    let mut owner = String::new();
    text.lines()
        .map(|line| {
            if let Some((_, rest)) = line.split_once(".entry") {
                owner = rest.split('(').next().unwrap_or("").trim().into();
            }
            owner.clone()
        })
        .collect()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [ptx, program, count, seed, rest @ ..] = arguments.as_slice() else {
        eprintln!("mutants PTX TEST_PROGRAM COUNT SEED [MINUTES [TESTS]]");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let minutes = rest.first().map_or(u64::MAX / 60, number);
    let end = Instant::now().checked_add(Duration::from_secs(minutes * 60));
    let text = fs::read_to_string(ptx).expect("the PTX can be read");
    let folder = env::temp_dir().join(format!("fake-cuda-mutants-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for changed PTX can be made");
    let program = PathBuf::from(program);
    let tests = tests(&program, &folder, rest.get(1).map_or("", String::as_str));
    let owners = owners(&text);
    let mut all: Vec<Mutant> = mutants(&text);
    println!("{} changes are possible", all.len());

    let mut state = number(seed) | 1;
    let mut by_test: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut tried, mut survived, mut idle) = (0, 0, BTreeSet::new());
    let changed = folder.join("changed.ptx");
    while tried < number(count) && !all.is_empty() && end.is_none_or(|end| Instant::now() < end) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let pick = ((state >> 11) % all.len() as u64) as usize;
        let mutant = all.swap_remove(pick);
        let kernel = &owners[mutant.line - 1];
        fs::write(&changed, mutant.apply(&text)).expect("changed PTX can be written");
        let mut concerned = tests.iter().filter(|test| test.kernels.contains(kernel)).peekable();
        if concerned.peek().is_none() {
            idle.insert(kernel.clone());
        }
        let noticed =
            concerned.find(|test| !passes(&program, &test.name, &[("FAKE_CUDA_MODULE", &changed)]));
        tried += 1;
        match noticed {
            Some(test) => *by_test.entry(&test.name).or_default() += 1,
            None => {
                survived += 1;
                println!(
                    "NOT NOTICED: {kernel} line {}: {} -> {}",
                    mutant.line, mutant.before, mutant.after
                );
            }
        }
    }
    println!("changes tried: {tried}, not noticed: {survived}");
    println!("kernels that no test launches: {idle:?}");
    by_test.iter().for_each(|(test, count)| println!("  {count} first noticed by {test}"));
    // What is left in the system's folder for temporary files harms nobody.
    let _ = fs::remove_dir_all(&folder);
}
