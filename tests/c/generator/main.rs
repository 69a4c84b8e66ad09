//! `null_arguments HEADER OUTPUT`: writes the C program that passes `NULL` for every pointer
//! parameter of every public function. Needs nothing but the standard library, so that the C
//! tests' build can compile it with a plain `rustc`.

mod cases;
mod header;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, header, output] = arguments.as_slice() else {
        eprintln!("usage: null_arguments HEADER OUTPUT");
        return ExitCode::FAILURE;
    };
    match generate(header, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("null_arguments: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn generate(header: &str, output: &str) -> Result<(), String> {
    let text = std::fs::read_to_string(header).map_err(|error| format!("{header}: {error}"))?;
    let (program, count) = cases::program(&header::read(&text)?)?;
    if count == 0 {
        return Err(format!("{header}: declares no function with a pointer parameter"));
    }
    std::fs::write(output, program).map_err(|error| format!("{output}: {error}"))
}
