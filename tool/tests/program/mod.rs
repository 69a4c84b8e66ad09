//! The tool as its users run it.

use std::process::{Command, Output};

/// The outcome of a command line.
pub fn umbo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_umbo"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The output of a right command line.
pub fn printed(arguments: &[&str]) -> String {
    let output = umbo(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}
