//! Runs case files on the library, through its C functions alone.
//!
//! A case is a small program written as data, with the results it must give;
//! docs/internals/case-language.md says how. `UMBO_CASES` lists the files to run, separated by
//! colons; without it those in tests/cases/data are run, three times: on the CPU, with GPUs of the
//! tests' own driver as compute devices, and with both (see `placement`). Each failure is printed
//! with what was expected and what came, and the last line counts. After each case all its handles
//! must be gone; and each expectation, when one value in it is changed, must fail.

mod datasets;
mod environment;
mod expect;
mod failure;
mod fields;
mod handle;
mod language;
mod literal;
mod mutation;
mod operand;
mod outcome;
mod placement;
mod refusals;
mod run;
mod steps;
mod values;

use std::ffi::CStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use fake_cuda::Control;
use serde_json::Value as Json;
use umbo::*;

use failure::{Failure, Result, check, wrong};
use placement::Placement;

/// Cases use the devices CPU:0 to CPU:9.
const DEVICES: i64 = 10;

/// Which cases passed and which did not; a file that cannot be read counts as a case.
#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    changes: usize,
}

fn files() -> Vec<PathBuf> {
    match std::env::var_os("UMBO_CASES") {
        Some(list) => {
            // Of a relative path cargo's user thinks in the folder of the repository.
            let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
            std::env::split_paths(&list)
                .map(|path| root.join(path))
                .collect()
        }
        None => {
            let data = concat!(env!("CARGO_MANIFEST_DIR"), "/cases/data");
            let entries = std::fs::read_dir(data).into_iter().flatten().flatten();
            let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
            files.retain(|file| {
                file.extension()
                    .is_some_and(|extension| extension == "json")
            });
            files.sort();
            files
        }
    }
}

fn read_cases(file: &Path) -> Result<Vec<Json>> {
    let problem = |error: &dyn Display| Failure::Case(format!("{}: {error}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| problem(&error))?;
    serde_json::from_str(&text).map_err(|error| problem(&error))
}

/// Whether this machine has what a case requires.
fn can_run(case: &Json) -> Result<bool> {
    let mut can = true;
    for requirement in fields::list(case, "requires")? {
        if requirement != "no_gpu" {
            return wrong(format!("unknown requirement {requirement}"));
        }
        can &= device_info(c"GPU:0")?.physical_count == 0;
    }
    Ok(can)
}

fn device_info(name: &CStr) -> Result<umbo_device_info> {
    let mut info = umbo_device_info::default();
    // SAFETY: the name is a text, the output is a variable.
    check(unsafe { umbo_device_get_info(name.as_ptr(), &raw mut info) })?;
    Ok(info)
}

fn judge(case: &Json, counts: &mut Counts) -> Result<Option<String>> {
    let report = run::run(case)?;
    let difference = expect::difference(&case["expect"], &report)?;
    if difference.is_none() {
        counts.changes += mutation::check(&case["expect"], &report)?;
    }
    Ok(difference)
}

fn run_files(counts: &mut Counts) -> Result<()> {
    if device_info(c"CPU:0")?.logical_count < DEVICES {
        // SAFETY: numbers only.
        check(unsafe {
            umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, DEVICES, std::ptr::null())
        })?;
    }
    refusals::check()?;
    for file in files() {
        run_file(&file, counts)?;
    }
    Ok(())
}

/// Runs the cases of a file. One that cannot be read is a failure among the others.
fn run_file(file: &Path, counts: &mut Counts) -> Result<()> {
    let cases = match read_cases(file) {
        Ok(cases) => cases,
        Err(failure) => {
            counts.failed += 1;
            println!("FAILED {failure}");
            return Ok(());
        }
    };
    // What has no counterpart here is listed with its reason, in a file beside the cases.
    for case in cases
        .iter()
        .filter(|case| case.get("steps").is_some() || case.get("reason").is_none())
    {
        let id = case["id"].as_str().unwrap_or("a case without id");
        if !can_run(case)? {
            println!("not run, for lack of {}: {id}", case["requires"]);
            continue;
        }
        match judge(case, counts) {
            Ok(None) => counts.passed += 1,
            Ok(Some(difference)) => {
                counts.failed += 1;
                println!("FAILED {id}: {difference}");
            }
            Err(failure) => {
                counts.failed += 1;
                println!("FAILED {id}: {failure}");
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut counts = Counts::default();
    let ran = run_files(&mut counts);
    if let Err(failure) = &ran {
        counts.failed += 1;
        println!("{failure}");
    }
    let Counts {
        passed,
        failed,
        changes,
    } = counts;
    println!("{changes} changed expectations were noticed");
    println!(
        "{} cases, {passed} passed, {failed} failed",
        passed + failed
    );
    let mut succeeded = ran.is_ok() && failed == 0 && passed > 0;
    if Placement::chosen() != Placement::Cpus {
        for report in Control::open()
            .expect("GPUs are the fake driver's")
            .take_reports()
        {
            println!("the driver reports: {report}");
            succeeded = false;
        }
    } else if std::env::var_os("UMBO_CASES").is_none() {
        succeeded &= ["gpus", "mixed"].into_iter().all(again);
    }
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs all cases once more, in a process that finds the fake driver.
fn again(placement: &str) -> bool {
    let program = std::env::current_exe().expect("the program knows where it is");
    println!("on {placement}:");
    let status = fake_cuda::harness::command(program)
        .env("UMBO_CASES_PLACEMENT", placement)
        .env("FAKE_CUDA_DEVICES", DEVICES.to_string())
        .status();
    status.is_ok_and(|status| status.success())
}
