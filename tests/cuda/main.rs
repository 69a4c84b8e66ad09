//! The kernels for GPUs against those of the CPU: the same bits, except for those of a NaN.
//!
//! Each test runs the kernels twice: as C++, where mistakes of the source are found at once, and as
//! PTX in the fake driver, which interprets it and reports every access that is wrong. `ptx` looks
//! at what the PTX must not do. What the GPU's assembler makes of it is not seen here. `added_kind`
//! runs the library on a kind of devices of its own, whose kernels are those in C++.

mod added_kind;
mod copy;
mod factored;
#[path = "../fresh/mod.rs"]
mod fresh;
mod gradients;
mod machine;
mod memory;
#[path = "../messages/mod.rs"]
mod messages;
mod own_rules;
mod ptx;
mod replicas;
mod rules;
mod sources;
mod table_updates;
mod update;

/// Numbers of elements: none, one, and those around the ends of what a thread and a block does.
pub const SIZES: [usize; 11] = [0, 1, 2, 255, 256, 257, 1023, 1024, 1025, 2047, 4099];

/// Says that a test is skipped, which fails where it may not be.
pub fn skip(test: &str, why: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/skip.sh");
    let status = std::process::Command::new(script)
        .args([test, why])
        .status()
        .unwrap();
    assert_eq!(
        status.code(),
        Some(77),
        "{test} may not be skipped here: {why}"
    );
}

/// A third of the cases, others at each turn and on each machine, so that each two choices meet.
pub fn share<T>(
    machine: &dyn machine::Machine,
    turn: usize,
    cases: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = T> {
    let first = turn + usize::from(machine.slowness() > 1);
    cases.into_iter().skip(first % 3).step_by(3)
}
