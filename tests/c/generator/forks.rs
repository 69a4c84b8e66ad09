//! Writes a C program that forks while the library is busy, and calls every public function in the
//! child.

use std::fmt::Write;

use crate::header::Header;

/// What a child may ask: it needs nothing that was made.
const ALLOWED: [&str; 2] = ["umbo_last_error_at", "umbo_set_last_error"];

/// The whole program, and the number of functions that it calls.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let mut calls = String::new();
    for function in &header.functions {
        let arguments: Vec<_> = function
            .parameters
            .iter()
            .map(|parameter| {
                let is_pointer =
                    parameter.kind.ends_with('*') || header.callbacks.contains(&parameter.kind);
                if is_pointer { "NULL" } else { "0" }
            })
            .collect();
        let call = format!("{}({})", function.name, arguments.join(", "));
        let line = match function.returns.as_str() {
            "umbo_status" if ALLOWED.contains(&function.name.as_str()) => {
                format!("umbo_ignore({call});")
            }
            "umbo_status" => format!("refused({call}, \"{}\");", function.exported()),
            "void" => format!("{call};"),
            _ => format!("(void){call};"),
        };
        writeln!(calls, "    {line}").expect("a string takes it");
    }
    let program = include_str!("forks.c").replace("    /* CALLS */\n", &calls);
    Ok((program, header.functions.len()))
}
