use umbo::kernels::cuda::{Launcher, TablePart};
use umbo::kernels::dtype::DType;
use umbo::kernels::instruction_set::Instructions;
use umbo::kernels::rows::order::RowOrder;
use umbo::kernels::rows::sum::{RowPart, sum_rows};

use crate::machine::{Machine, on_every_machine};
use crate::memory::{Lie, Memory, Noise};

const FLOATS: [DType; 4] = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];

fn rows_are_added_in_the_order_of_their_entries(machine: &dyn Machine) {
    let mut noise = Noise::new(51);
    for dtype in FLOATS {
        for (table, width) in [(1, 1), (7, 1), (40, 3), (1000, 16), (11, 257), (4, 3000), (5, 0)] {
            for (before, counts) in [
                (None, vec![0]),
                (None, vec![5]),
                (Some(3), vec![]),
                (None, vec![4, 0, 9]),
                (Some(2), vec![1, 30, 2, 8, 1, 1, 1, 3]),
                (Some(0), vec![700]),
            ] {
                let tame = noise.below(2) == 0;
                let before = before.map(|rows: usize| rows.min(table));
                let mut order = RowOrder::default();
                let entries = before.unwrap_or(0) + counts.iter().sum::<usize>();
                order.start(entries).unwrap();
                let first: Vec<usize> = (0..before.unwrap_or(0)).collect();
                order.add_rows(&first);
                for &count in &counts {
                    let named: Vec<usize> = (0..count).map(|_| noise.below(table)).collect();
                    order.add_rows(&named);
                }
                order.sort(table);
                let mut rows_of = |dtype, rows| {
                    Memory::new(dtype, &[rows, width], Lie::Dense, || match tame {
                        true => noise.tame(dtype),
                        false => noise.element(dtype),
                    })
                };
                let accumulated = before.map(|rows| rows_of(DType::Float64, rows));
                let parts: Vec<(Memory, f64)> = counts
                    .iter()
                    .enumerate()
                    .map(|(position, &count)| {
                        (rows_of(dtype, count), [1.0, 1.0 / 3.0, 0.25][position % 3])
                    })
                    .collect();
                let mut sums = rows_of(DType::Float64, order.rows());
                let place = sums.on(machine);
                let part = |memory: &Memory, factor| TablePart {
                    values: memory.on(machine).address,
                    rows: memory.layout.shape[0],
                    factor,
                };
                let on_machine: Vec<TablePart> =
                    parts.iter().map(|(memory, factor)| part(memory, *factor)).collect();
                let accumulated_part = accumulated.as_ref().map(|memory| part(memory, 9.0));
                // SAFETY: nobody else has the memory.
                unsafe {
                    let mut launcher = Launcher::new(machine);
                    let (width, to) = (width as u64, place.address);
                    launcher
                        .sum_rows(&order, accumulated_part, &on_machine, dtype, width, to)
                        .unwrap();
                }
                let views: Vec<RowPart<'_>> = parts
                    .iter()
                    .map(|(memory, factor)| RowPart { values: memory.view(), factor: *factor })
                    .collect();
                let accumulated = accumulated.as_ref().map(Memory::view);
                let mut view = sums.view_mut();
                sum_rows(Instructions::chosen(), &order, accumulated, &views, &mut view);
                let case = || format!("{dtype}, {table} by {width}, {before:?} {counts:?}");
                sums.check(machine, &place, &case);
            }
        }
    }
}

fn what_does_not_fit_is_refused(machine: &dyn Machine) {
    let mut order = RowOrder::default();
    order.start(2).unwrap();
    order.add_rows(&[1, 1]);
    order.sort(3);
    let part = |rows| TablePart { values: 256, rows, factor: 1.0 };
    let mut launcher = Launcher::new(machine);
    // SAFETY: nothing is queued.
    unsafe {
        let float = DType::Float32;
        let few = launcher.sum_rows(&order, None, &[part(1)], float, 1, 256).unwrap_err();
        assert!(few.to_string().contains("1 rows for 2"), "{few}");
        let twice = launcher.sum_rows(&order, Some(part(2)), &[], float, 1, 256).unwrap_err();
        assert!(twice.to_string().contains("twice"), "{twice}");
        let integers = launcher.sum_rows(&order, None, &[part(2)], DType::Int8, 1, 256);
        assert!(integers.unwrap_err().to_string().contains("must be a float"));
    }
}

on_every_machine! { rows_are_added_in_the_order_of_their_entries what_does_not_fit_is_refused }
