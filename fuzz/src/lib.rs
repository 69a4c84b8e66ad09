//! What is fuzzed: every parser of bytes that come from outside.
//!
//! A target takes any bytes and panics if the library does what it must not: accept what makes no
//! sense, change something and then fail, or read what is not there (AddressSanitizer sees that
//! one). `cargo fuzz` drives the targets by coverage; `tests/fuzz.rs` of the library drives the
//! same ones by random changes of the seeds, so that `make test` needs no fuzzer.

mod arrays;
mod checkpoints;
mod exchanged;
mod file;
mod names;
mod positions;

/// A parser, and what it should read well.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Inputs that are accepted, as far as there are any: where a fuzzer begins.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: [Target; 9] = [
    Target {
        name: "npy",
        run: arrays::npy,
        seeds: arrays::npy_seeds,
    },
    Target {
        name: "npz",
        run: arrays::npz,
        seeds: arrays::npz_seeds,
    },
    Target {
        name: "idx",
        run: arrays::idx,
        seeds: arrays::idx_seeds,
    },
    Target {
        name: "safetensors",
        run: checkpoints::weights,
        seeds: checkpoints::seeds,
    },
    Target {
        name: "checkpoint",
        run: checkpoints::resealed,
        seeds: checkpoints::seeds,
    },
    Target {
        name: "position",
        run: positions::run,
        seeds: positions::seeds,
    },
    Target {
        name: "device_name",
        run: names::device,
        seeds: names::device_seeds,
    },
    Target {
        name: "cluster",
        run: names::cluster,
        seeds: names::cluster_seeds,
    },
    Target {
        name: "dlpack",
        run: exchanged::run,
        seeds: exchanged::seeds,
    },
];

/// Runs a target by its name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").run)(bytes);
}
