//! `generator WHAT HEADER OUTPUT`: writes a C program over all functions of a header and of those
//! that it includes. Needs nothing but the standard library, so that the C tests' build can compile
//! it with a plain `rustc`.
//!
//! `null_arguments` passes `NULL` for every pointer parameter, and structs whose defaults are not
//! set, `every_option` gives each field of each struct of options, `matrix` calls every function in
//! every context in which the library calls back, `sequences` makes random calls, `forks` calls
//! every function in the children of forks.

mod cases;
mod every_option;
mod forks;
mod header;
mod matrix;
mod number_tables;
mod numbers;
mod sequences;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, program_name, header, output] = arguments.as_slice() else {
        eprintln!(
            "usage: generator null_arguments|every_option|matrix|numbers|sequences|forks HEADER \
             OUTPUT"
        );
        return ExitCode::FAILURE;
    };
    match generate(program_name, header, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("generator: {program_name}: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn generate(program_name: &str, header: &str, output: &str) -> Result<(), String> {
    let text = header::with_included(Path::new(header), &mut BTreeSet::new())?;
    let read = header::read(&text)?;
    let (program, count) = match program_name {
        "null_arguments" => cases::program(&read)?,
        "every_option" => every_option::program(&read)?,
        "matrix" => matrix::program(&read)?,
        "numbers" => numbers::program(&read)?,
        "sequences" => sequences::program(&read)?,
        "forks" => forks::program(&read)?,
        _ => return Err("no such program".into()),
    };
    if count == 0 {
        return Err(format!(
            "{header}: declares no function that could be called"
        ));
    }
    std::fs::write(output, program).map_err(|error| format!("{output}: {error}"))
}
