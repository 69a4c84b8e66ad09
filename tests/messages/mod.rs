//! The library's messages are output of the test: `cargo test` shows them where the test fails, and
//! otherwise does not.

use umbo_core::observe::log::{Level, set_sink};

/// Sends messages to where the test's own output goes. A test that looks for messages sets another
/// sink meanwhile.
pub fn are_output_of_the_test() {
    let print = |level: Level, text: &str| eprintln!("umbo: {}: {text}", level.name());
    set_sink(Level::Warning, Box::new(print));
}

/// The dynamic linker calls this before the first test begins.
// SAFETY: the section holds addresses of functions of this type.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_ALL_TESTS: extern "C" fn() = {
    extern "C" fn begin() {
        are_output_of_the_test();
    }
    begin
};
