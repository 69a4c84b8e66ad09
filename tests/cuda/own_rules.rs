//! What is done for rules of the program's: gradients as a rule gets them, and rows out of tables
//! and back.

use std::sync::atomic::AtomicBool;

use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::{DeviceUpdate, KernelLauncher, RowCopy};
use umbo_core::kernels::update::pass::UpdatePass;
use umbo_core::kernels::update::tiles::Tile;
use umbo_core::kernels::update::weighted_sum::Clipping;
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::{Rates, Slot, UpdateRule, WeightDecay};

use crate::SIZES;
use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::sources::{PAIRS, Sources};

/// A rule that keeps the gradient.
fn keeping() -> Custom {
    let keep = |tile: &Tile<'_>, _: &Rates, _: u64| {
        let bytes = tile.elements * tile.dtype.size();
        // SAFETY: a tile's pointers lead to as many elements, and have nothing in common.
        unsafe { tile.slots[0].copy_from_nonoverlapping(tile.gradient, bytes) };
    };
    let slots = vec![Slot::new("gradient", 0.0)];
    Custom::new(
        "keeping".into(),
        slots,
        0.0,
        WeightDecay::L2,
        Box::new(keep),
        None,
    )
    .unwrap()
}

fn gradients_are_treated(machine: &dyn Machine) {
    let mut noise = Noise::new(71);
    let rule = keeping();
    let rates = Rates {
        learning_rate: 0.1,
        weight_decay: 0.0,
    };
    let scalars = rule.prepare(&rates, &rule.initial_progress()).unwrap();
    for (round, (pair, size)) in PAIRS
        .into_iter()
        .flat_map(|pair| SIZES.map(|size| (pair, size)))
        .enumerate()
    {
        for tame in [true, false] {
            let replicas = noise.below(9);
            let sources = Sources::new(machine, pair, size, replicas, tame, &mut noise);
            let mut weights = Memory::dense(pair.0, size, tame, &mut noise);
            let mut kept = Memory::noise(pair.0, &[size], Lie::Dense, &mut noise);
            let weights_there = weights.on(machine);
            let there = kept.on(machine);
            let clipping = [
                Clipping::NONE,
                Clipping {
                    factor: 0.3,
                    limit: f64::INFINITY,
                },
                Clipping {
                    factor: 1e-41,
                    limit: 0.25,
                },
            ][noise.below(3)];
            let l2 = [0.0, 1e-3][noise.below(2)];
            let flag = (noise.below(3) > 0).then(|| machine.memory(&[0; 4]));
            let treated = DeviceUpdate {
                gradient: sources.gradient(),
                clipping,
                l2,
                step: None,
                weights: weights_there.address,
                slots: &[there.address],
                rows: None,
                not_finite: flag,
            };
            let launcher =
                KernelLauncher::new(machine).with_few_chunks((round + usize::from(tame)) % 2 == 0);
            // SAFETY: nobody else has the memory.
            unsafe { launcher.update(&[treated]).unwrap() };
            let not_finite = AtomicBool::new(false);
            {
                let contributions = sources.contributions();
                let weights = weights.span_mut();
                let slots = [kept.span_mut()];
                let instructions = Instructions::chosen();
                // SAFETY: nobody else has the operands.
                let pass = unsafe {
                    UpdatePass::new(
                        instructions,
                        &weights,
                        &slots,
                        &contributions,
                        sources.divisor,
                    )
                };
                let pass = pass
                    .starting_from(sources.accumulated.as_ref().map(Memory::span))
                    .clipped(clipping)
                    .with_l2(l2);
                rule.update(&scalars, &pass.noting(&not_finite));
            }
            let case = || format!("{}, {clipping:?}, l2 {l2}", sources.describe());
            kept.check(machine, &there, &case);
            weights.check(machine, &weights_there, &case);
            if let Some(flag) = flag {
                let found = machine.read(flag, 4) != [0; 4];
                assert_eq!(found, not_finite.into_inner(), "finiteness of {}", case());
            }
        }
    }
}

fn rows_are_copied_out_of_a_table_and_back(machine: &dyn Machine) {
    let mut noise = Noise::new(72);
    for dtype in [DType::Float32, DType::Float64] {
        for (rows, width) in [
            (1, 1),
            (9, 1),
            (50, 3),
            (300, 16),
            (70, 33),
            (3, 2500),
            (5, 0),
        ] {
            let numbers: Vec<u64> = (0..rows as u64).filter(|_| noise.below(3) > 0).collect();
            let mut table = Memory::noise(dtype, &[rows * width], Lie::Dense, &mut noise);
            let compact = Memory::noise(dtype, &[numbers.len() * width], Lie::Dense, &mut noise);
            let there = table.on(machine);
            let compact_there = compact.on(machine);
            let out = Memory::noise(dtype, &[numbers.len() * width], Lie::Dense, &mut noise);
            let out_there = out.on(machine);
            let bytes: Vec<u8> = numbers
                .iter()
                .flat_map(|number| number.to_ne_bytes())
                .collect();
            let copy = RowCopy {
                dtype,
                numbers: machine.memory(&bytes),
                rows: numbers.len() as u64,
                width: width as u64,
                table: there.address,
                compact: out_there.address,
                back: false,
            };
            let back = RowCopy {
                compact: compact_there.address,
                back: true,
                ..copy
            };
            let few_are_many = noise.below(2) == 0;
            let launcher = KernelLauncher::new(machine).with_few_chunks(few_are_many);
            // SAFETY: nobody else has the memory.
            unsafe {
                launcher.copy_rows(copy).unwrap();
                launcher.copy_rows(back).unwrap();
            }
            let size = width * dtype.size();
            let row = |number: u64| number as usize * size..(number as usize + 1) * size;
            let old: Vec<u8> = numbers
                .iter()
                .flat_map(|&number| table.bytes()[row(number)].to_vec())
                .collect();
            let mut left = old.chunks(dtype.size());
            let behind = out.bytes()[old.len()..].to_vec();
            let mut behind = behind.chunks(dtype.size());
            let expected = Memory::new(dtype, &[numbers.len() * width], Lie::Dense, || {
                let mut word = [0; 8];
                let element = left.next().or_else(|| behind.next()).unwrap();
                word[..dtype.size()].copy_from_slice(element);
                u64::from_ne_bytes(word)
            });
            let case = || format!("{rows} rows of {width} {dtype}");
            expected.check(machine, &out_there, &case);
            for (position, &number) in numbers.iter().enumerate() {
                table.write(row(number), &compact.bytes()[row(position as u64)]);
            }
            table.check(machine, &there, &case);
        }
    }
    let wrong = RowCopy {
        dtype: DType::Int8,
        numbers: 0,
        rows: 1,
        width: 1,
        table: 0,
        compact: 0,
        back: false,
    };
    // SAFETY: nothing is queued.
    let refused = unsafe { KernelLauncher::new(machine).copy_rows(wrong) };
    assert!(refused.unwrap_err().to_string().contains("int8"));
}

on_every_machine! { gradients_are_treated rows_are_copied_out_of_a_table_and_back }
