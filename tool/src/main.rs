//! The command-line tool. It shows the devices that Umbo finds on this machine and how fast it is
//! there. Each subcommand has its own file.

mod arguments;
mod bench;
mod completions;
#[cfg(feature = "plot")]
mod day;
mod devices;
mod doctor;
mod drawing;
mod failure;
mod gpu;
mod plot;
mod trace;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use failure::Failure;
use lexopt::Arg::{Long, Short, Value};

/// The output of `umbo --help`.
pub const HELP: &str = "\
Usage: umbo COMMAND [OPTIONS]

Commands:
  bench         measure the library on this machine
  completions   make bash or zsh complete the command line
  devices       show the physical and logical devices of this machine
  doctor        check what training on this machine needs, or a trace, and say what is wrong
  plot          draw the loss and the accuracy of a training
  trace         make a page of a trace

Options:
  -h, --help      show this help; after a command, that command's
  -V, --version   show the version
";

const COMMANDS: &str = "bench, completions, devices, doctor, plot, trace";

/// The output of a subcommand, and whether it found no problem.
struct Report {
    text: String,
    fine: bool,
}

impl Report {
    fn fine(text: impl Into<String>) -> Report {
        Report {
            text: text.into(),
            fine: true,
        }
    }
}

/// The exit code is 0 if there is no problem, 1 if there is one, and 2 if the command line is
/// wrong.
fn main() -> ExitCode {
    let report = match run(lexopt::Parser::from_env()) {
        Ok(report) => report,
        Err(failure) => {
            eprintln!("umbo: {failure}");
            let Failure::CommandLine(error) = failure else {
                return ExitCode::FAILURE;
            };
            explain(&error);
            return ExitCode::from(2);
        }
    };
    match io::stdout().write_all(report.text.as_bytes()) {
        Ok(()) if report.fine => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        // The reader has closed the pipe, as in 'umbo devices | head -1'.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("umbo: cannot write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what would be right.
fn explain(error: &lexopt::Error) {
    let arguments: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let place = completions::options_of(&arguments);
    if let (lexopt::Error::UnexpectedOption(_), Some((place, options))) = (error, &place) {
        let command = format!("umbo {place}");
        eprintln!("'{}' has {}", command.trim_end(), options.join(", "));
    }
    let command = place
        .map(|(place, _)| place + " ")
        .filter(|place| place != " ")
        .unwrap_or_default();
    eprintln!("Try 'umbo {command}--help'.");
}

fn run(mut arguments: lexopt::Parser) -> Result<Report, Failure> {
    match arguments.next()? {
        None => Err(Failure::wrong("which command?")),
        Some(Short('h') | Long("help")) => Ok(Report::fine(HELP)),
        Some(Short('V') | Long("version")) => Ok(Report::fine(format!(
            "umbo {}\n",
            env!("CARGO_PKG_VERSION")
        ))),
        Some(Value(command)) => match command.to_str() {
            Some("bench") => bench::run(arguments),
            Some("completions") => completions::run(arguments),
            Some("devices") => devices::run(arguments),
            Some("doctor") => doctor::run(arguments),
            Some("plot") => plot::run(arguments),
            Some("trace") => trace::run(arguments),
            _ => {
                let command = command.to_string_lossy();
                Err(Failure::wrong(format!(
                    "unknown command '{command}'; there are {COMMANDS}"
                )))
            }
        },
        Some(other) => Err(other.unexpected().into()),
    }
}

/// A value as indented JSON with a final newline.
fn json_text(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// A number of bytes as a readable text: `7.8 GiB`.
fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0);
    format!("{amount:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_well() {
        assert_eq!(bytes_text(0), "0 bytes");
        assert_eq!(bytes_text(1023), "1023 bytes");
        assert_eq!(bytes_text(1024), "1.0 KiB");
        assert_eq!(bytes_text(8_375_186_227), "7.8 GiB");
        assert_eq!(bytes_text(u64::MAX), "16777216.0 TiB");
    }
}
