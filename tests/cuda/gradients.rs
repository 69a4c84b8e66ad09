use std::sync::atomic::AtomicU64;

use umbo_core::executor::pieces::Pieces;
use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::KernelLauncher;
use umbo_core::kernels::update::accumulate::accumulate;
use umbo_core::kernels::update::chunks::{ChunkSums, Chunks};
use umbo_core::kernels::update::squares::Squares;
use umbo_core::kernels::update::weighted_sum::WeightedSum;

use crate::SIZES;
use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::sources::{PAIRS, Sources};

fn gradients_are_written(machine: &dyn Machine) {
    write_gradients(machine, false);
    write_gradients(machine, true);
}

fn write_gradients(machine: &dyn Machine, few_are_many: bool) {
    let mut noise = Noise::new(44 + 100 * u64::from(few_are_many));
    let mut all = Vec::new();
    for (pair, size) in PAIRS
        .into_iter()
        .flat_map(|pair| SIZES.map(|size| (pair, size)))
    {
        let tame = noise.below(2) == 0;
        let sources = Sources::new(machine, pair, size, noise.below(9), tame, &mut noise);
        let target = Memory::noise(pair.0, &[size], Lie::Dense, &mut noise);
        let place = target.on(machine);
        all.push((sources, target, place));
    }
    let list: Vec<_> = all
        .iter()
        .map(|(sources, _, place)| (sources.gradient(), place.address))
        .collect();
    // SAFETY: nobody else has the memory.
    unsafe {
        let launcher = KernelLauncher::new(machine).with_few_chunks(few_are_many);
        launcher.write_gradients(&list).unwrap();
    }
    for (sources, mut target, place) in all {
        let contributions = sources.contributions();
        let sum = WeightedSum::new(
            sources.dtype,
            sources.elements,
            &contributions,
            sources.divisor,
        )
        .starting_from(sources.accumulated.as_ref().map(Memory::span));
        // SAFETY: nobody else has the memory.
        unsafe { sum.write_to(Instructions::chosen(), &target.span_mut()) };
        target.check(machine, &place, &|| sources.describe());
    }
}

fn runs_are_accumulated(machine: &dyn Machine) {
    let mut noise = Noise::new(45);
    for (pair, size) in PAIRS
        .into_iter()
        .flat_map(|pair| SIZES.map(|size| (pair, size)))
    {
        for replicas in 1..=8 {
            let tame = noise.below(2) == 0;
            let mut sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
            let is_fresh = sources.accumulated.is_none();
            let mut sum = sources
                .accumulated
                .take()
                .unwrap_or_else(|| Memory::noise(DType::Float64, &[size], Lie::Dense, &mut noise));
            let place = sum.on(machine);
            // In place, as an apply does it.
            sources.accumulated_on_machine = (!is_fresh).then_some(place);
            let gradient = (sources.gradient(), place.address);
            // SAFETY: nobody else has the memory.
            unsafe {
                KernelLauncher::new(machine)
                    .with_few_chunks(replicas % 2 == 0)
                    .accumulate(&[gradient])
                    .unwrap();
            }
            let contributions = sources.contributions();
            let mut pieces = Pieces::default();
            pieces.push(size, 64, 8);
            let span = sum.span_mut();
            pieces.for_each_range(1, &|range| {
                for (_, part) in range.parts() {
                    // SAFETY: nobody else has the sum.
                    unsafe {
                        accumulate(
                            Instructions::chosen(),
                            &span,
                            is_fresh,
                            &contributions,
                            part,
                        )
                    };
                }
            });
            sum.check(machine, &place, &|| sources.describe());
        }
    }
}

/// Squares as the CPU measures them.
fn squares(sources: &Sources) -> Squares {
    let contributions = sources.contributions();
    let sum = WeightedSum::new(
        sources.dtype,
        sources.elements,
        &contributions,
        sources.divisor,
    )
    .starting_from(sources.accumulated.as_ref().map(Memory::span));
    let chunks = Chunks::of(sources.elements);
    let sums: Vec<ChunkSums<2>> = (0..chunks.count())
        .map(|_| [const { AtomicU64::new(0) }; 2])
        .collect();
    let mut pieces = Pieces::default();
    pieces.push(sources.elements, chunks.size, 8);
    pieces.for_each_range(1, &|range| {
        for (_, part) in range.parts() {
            let instructions = Instructions::chosen();
            // SAFETY: nobody else has the memory.
            unsafe { sum.measure_squares(instructions, chunks, &part, &sums, None, false) };
        }
    });
    Squares::of_chunks(&sums)
}

fn gradients_are_measured(machine: &dyn Machine) {
    let mut noise = Noise::new(46);
    let sizes = SIZES
        .into_iter()
        .chain([16_383, 16_384, 16_385, 40_000, 1_100_000]);
    let mut all = Vec::new();
    for size in sizes {
        for pair in PAIRS {
            for tame in [true, false] {
                let replicas = if size > 100_000 { 1 } else { noise.below(9) };
                all.push(Sources::new(
                    machine, pair, size, replicas, tame, &mut noise,
                ));
            }
        }
    }
    let measured: Vec<_> = all.iter().map(Sources::gradient).collect();
    let results = machine.memory(&vec![0xee; 16 * all.len()]);
    // SAFETY: nobody else has the memory.
    unsafe {
        KernelLauncher::new(machine)
            .measure(&measured, results)
            .unwrap()
    };
    let results = machine.read(results, 16 * all.len());
    for (sources, result) in all.into_iter().zip(results.chunks(16)) {
        let number = |at: usize| f64::from_ne_bytes(result[8 * at..8 * at + 8].try_into().unwrap());
        let found = Squares {
            sum: number(0),
            finite: number(1) == 0.0,
        };
        let expected = squares(&sources);
        assert_eq!(found.finite, expected.finite, "{}", sources.describe());
        let same = found.sum.to_bits() == expected.sum.to_bits();
        assert!(
            same || found.sum.is_nan() && expected.sum.is_nan(),
            "{found:?}, not {expected:?}, for {}",
            sources.describe()
        );
    }
}

on_every_machine! { gradients_are_written runs_are_accumulated gradients_are_measured }
