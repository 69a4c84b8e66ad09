//! The fuzz targets (`fuzz/`) on random changes of what they read well, without a fuzzer. A program
//! of its own, into which those are compiled.
//!
//! `FUZZ_INPUTS` asks for another number of inputs for each target.

use std::panic::catch_unwind;
use std::path::Path;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

#[path = "../fuzz/src/lib.rs"]
mod targets;

use targets::{TARGETS, Target};

/// Changes that parsers are sensitive to: single bits, numbers at the edge, pieces cut out, doubled
/// or taken from elsewhere.
fn changed(random: &mut ChaCha8Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..input.len().max(1)).min(input.len());
        let end = (at + random.random_range(1..9)).min(input.len());
        match random.random_range(0..7) {
            0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
            1 if at < input.len() => {
                input[at] = *[0, 1, b'9', b'-', b'"', b'[', 0x7f, 0x80, 0xff]
                    .choose(random)
                    .unwrap();
            }
            2 => drop(input.drain(at..end)),
            3 => drop(input.splice(at..at, input[at..end].to_vec())),
            4 => input.truncate(at),
            5 => {
                let from = random.random_range(0..=other.len());
                let to = (from + random.random_range(1..32)).min(other.len());
                drop(input.splice(at..end, other[from..to].iter().copied()));
            }
            // Sizes and offsets stand as digits, or as eight bytes.
            _ => {
                let number = *["0", "-1", "18446744073709551615", "1e400"]
                    .choose(random)
                    .unwrap();
                drop(input.splice(at..end, number.bytes()));
            }
        }
    }
    input
}

fn inputs() -> usize {
    let given = std::env::var("FUZZ_INPUTS").ok();
    given.map_or(300, |number| number.parse().expect("a number of inputs"))
}

fn try_one(target: &Target, input: &[u8], case: &str) {
    let result = catch_unwind(|| targets::run(target.name, input));
    assert!(
        result.is_ok(),
        "{}: {case}: {:?}",
        target.name,
        String::from_utf8_lossy(input)
    );
}

fn drive(name: &str) {
    let target = TARGETS
        .iter()
        .find(|target| target.name == name)
        .expect("a target");
    let regressions = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/regressions")
        .join(name);
    for file in std::fs::read_dir(regressions).into_iter().flatten() {
        let path = file.unwrap().path();
        try_one(
            target,
            &std::fs::read(&path).unwrap(),
            &path.display().to_string(),
        );
    }
    let mut inputs_there = (target.seeds)();
    for seed in &inputs_there {
        try_one(target, seed, "a seed");
    }
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let seeds = inputs_there.len();
    for number in 0..inputs() {
        let original = inputs_there.choose(&mut random).unwrap();
        let other = &inputs_there[0];
        let input = changed(&mut random, original, other);
        try_one(target, &input, &format!("change {number}"));
        // Some changes are changed again.
        if random.random_bool(0.1) && inputs_there.len() < seeds + 50 {
            inputs_there.push(input);
        }
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                drive(stringify!($name));
            }
        )*

        #[test]
        fn every_target_is_driven_and_has_a_program() {
            let driven = [$(stringify!($name)),*];
            assert_eq!(TARGETS.map(|target| target.name), driven);
            for name in driven {
                let program = format!("../fuzz/fuzz_targets/{name}.rs");
                let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(program);
                let text = std::fs::read_to_string(&program).expect("a program for cargo-fuzz");
                assert!(text.contains(&format!("run(\"{name}\"")), "{}", program.display());
            }
        }
    };
}

targets! { npy npz idx safetensors checkpoint position device_name cluster dlpack }
