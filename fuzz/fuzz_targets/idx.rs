#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| umbo_fuzz::run("idx", bytes));
