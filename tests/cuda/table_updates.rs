use std::sync::atomic::AtomicBool;

use umbo_core::kernels::dtype::DType;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::launch::{DevicePlace, DeviceUpdate, Gradient, KernelLauncher, TableRows};
use umbo_core::kernels::update::pass::{PassRows, RowGradients, UpdatePass};
use umbo_core::kernels::update::weighted_sum::Clipping;

use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};
use crate::rules::{operands, rules, scalars};

/// Rows of a table are updated by sums of their own, and others are left alone.
fn rows_of_tables(machine: &dyn Machine) {
    let mut noise = Noise::new(43);
    let rules = rules();
    for rule in rules.iter().filter(|rule| !rule.measures()) {
        for dtype in [DType::Float32, DType::Float64] {
            for (table, width) in [
                (1, 1),
                (9, 1),
                (50, 3),
                (300, 16),
                (70, 33),
                (3, 2500),
                (5, 0),
            ] {
                let numbers: Vec<usize> = (0..table).filter(|_| noise.below(3) > 0).collect();
                let elements = numbers.len() * width;
                let is_finite = noise.below(3) > 0;
                let sums = Memory::new(DType::Float64, &[elements], Lie::Dense, || {
                    match is_finite || noise.below(20) > 0 {
                        true => noise.tame(DType::Float64),
                        false => f64::NAN.to_bits(),
                    }
                });
                let not_finite = AtomicBool::new(false);
                let mut operands = operands(&**rule, dtype, table * width, true, &mut noise);
                let places: Vec<DevicePlace> = operands.iter().map(|o| o.on(machine)).collect();
                let slots: Vec<u64> = places[1..].iter().map(|place| place.address).collect();
                let flag = (noise.below(3) > 0).then(|| machine.memory(&[0; 4]));
                let scalars = scalars(&**rule, 5);
                let update = DeviceUpdate {
                    gradient: Gradient {
                        dtype,
                        elements: elements as u64,
                        gradient_dtype: dtype,
                        contributions: &[],
                        accumulated: Some(sums.on(machine).address),
                        divisor: 3.0,
                    },
                    clipping: Clipping {
                        factor: 0.5,
                        limit: 2.0,
                    },
                    l2: 1e-3,
                    step: scalars.step,
                    weights: places[0].address,
                    slots: &slots,
                    rows: Some(TableRows {
                        numbers: &numbers,
                        elements: width as u64,
                        table_rows: table,
                    }),
                    not_finite: flag,
                };
                // SAFETY: nobody else has the memory.
                unsafe { KernelLauncher::new(machine).update(&[update]).unwrap() };
                {
                    let mut weights: Vec<_> = operands.iter_mut().map(Memory::span_mut).collect();
                    let slots = weights.split_off(1);
                    let rows = PassRows {
                        numbers: &numbers,
                        elements: width,
                    };
                    let instructions = Instructions::chosen();
                    // SAFETY: nobody else has the operands.
                    let pass = unsafe {
                        UpdatePass::at_rows(
                            instructions,
                            &weights[0],
                            &slots,
                            rows,
                            RowGradients::Summed(sums.span()),
                            3.0,
                        )
                    };
                    let pass = pass.clipped(update.clipping).with_l2(update.l2);
                    rule.update(&scalars, &pass.noting(&not_finite));
                }
                let case = || format!("{} of {dtype}, {table} by {width}", rule.name());
                for (operand, place) in operands.iter().zip(&places) {
                    operand.check(machine, place, &case);
                }
                if let Some(flag) = flag {
                    let found = machine.read(flag, 4) != [0; 4];
                    assert_eq!(found, not_finite.into_inner(), "finiteness of {}", case());
                }
            }
        }
    }
}

on_every_machine! { rows_of_tables }
