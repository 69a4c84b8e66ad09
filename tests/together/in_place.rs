//! Variables over the program's memory, over ranks: they begin with rank 0's values, there where
//! they are, and train to the bits of one process.

use std::sync::Arc;

use umbo_core::collectives::Assignment;
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientMode, GradientsOptions, Optimizer, apply};
use umbo_core::strategy::variables::assign_all::assign_all;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::variables::{assign, read, refreshed_copy};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{DType, Layout, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::dividing::gradients;
use super::engine::{job, ranks};
use super::{alone, bytes, copy_into, named, on_ranks, tensor};

const SPLITS: [(usize, usize); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

/// Where in one block of the program's the variables lie, and their shapes.
const PARTS: [(usize, &[usize]); 4] = [(0, &[5]), (5, &[3, 2]), (16, &[0]), (16, &[2, 1300])];

const ELEMENTS: usize = 2616;

fn block(numbers: impl Fn(usize) -> f32) -> Tensor {
    tensor(&(0..ELEMENTS).map(numbers).collect::<Vec<_>>(), &[ELEMENTS])
}

/// A view of elements of the block, which it keeps.
fn part(whole: &Tensor, first: usize, shape: &[usize], read_only: bool) -> Tensor {
    let shape = Shape::new(shape).unwrap();
    // SAFETY: within the block, which is kept.
    let storage = unsafe {
        let data = whole.address().add(first * 4);
        Storage::foreign(
            data,
            shape.elements() * 4,
            DeviceId::HOST,
            read_only,
            Box::new(whole.clone()),
        )
    };
    let layout = Layout::row_major(shape);
    Tensor::from_storage(Arc::new(storage), DType::Float32, layout, 0).unwrap()
}

/// Variables over the parts of `block`; one of them may only be read, if `wrong` says so.
fn make(strategy: &Strategy, block: &Tensor, wrong: Option<usize>) -> Result<Vec<Variable>> {
    let parts = PARTS.iter().enumerate().map(|(index, &(first, shape))| {
        let new = named(&format!("part{index}"), Aggregation::Mean);
        (new, part(block, first, shape, wrong == Some(index)))
    });
    // SAFETY: the block is written through the variables, and read between steps.
    unsafe { create_in_place(strategy, parts.collect()) }
}

fn home(variable: &Variable) -> usize {
    // SAFETY: the elements are not read.
    unsafe { refreshed_copy(None, variable, variable.dtype()) }
        .unwrap()
        .address()
        .addr()
}

/// Steps that update, assign and fail; what the block held after each.
fn train(strategy: &Strategy, block: &Tensor) -> Vec<Vec<u8>> {
    let variables = make(strategy, block, None).unwrap();
    let homes: Vec<usize> = variables.iter().map(home).collect();
    let mut known = vec![bytes(block)];
    let gradients = gradients(strategy, &variables, GradientsOptions::default());
    let rule = Adam::new(0.9, 0.999, 1e-7).unwrap();
    let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
    for step in 0..6 {
        let fails = step == 3;
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            let value = |index: usize| {
                let count: usize = PARTS[index].1.iter().product();
                let number = |at: usize| ((at * 7 + replica * 3 + step) % 11) as f32 / 4.0 - 1.0;
                tensor(&(0..count).map(number).collect::<Vec<_>>(), PARTS[index].1)
            };
            if step % 2 == 0 {
                let values = vec![value(1)];
                let weight = Some(1.0 + replica as f64);
                assign_all(context, std::slice::from_ref(&variables[1]), values, weight)?;
                assign(&variables[0], Assignment::Add, &Value::Tensor(value(0)))?;
            }
            for index in 0..PARTS.len() {
                let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
                copy_into(view, &value(index));
            }
            gradients.submit_in(context, Some(1.0 + replica as f64))?;
            apply(&optimizer, &gradients)?;
            match fails && replica == 1 {
                true => Err(Error::NotFound("as planned".into())),
                false => Ok(None),
            }
        };
        assert_eq!(strategy.run(&callback, None).is_err(), fails);
        let now = bytes(block);
        assert_eq!(fails, now == known[known.len() - 1], "step {step}");
        for (variable, (home, (first, shape))) in variables.iter().zip(homes.iter().zip(PARTS)) {
            assert_eq!(self::home(variable), *home);
            let count = shape.iter().product::<usize>() * 4;
            assert_eq!(
                bytes(&read(variable).unwrap()),
                now[first * 4..first * 4 + count]
            );
        }
        known.push(now);
    }
    known
}

#[test]
fn all_ranks_begin_with_the_values_of_rank_0_and_train_in_their_own_memory() {
    for (number, (size, replicas)) in SPLITS.into_iter().enumerate() {
        let expected = train(&alone(size * replicas), &block(|at| at as f32 / 8.0));
        let came = on_ranks(
            &job(size, Some(number as u64), None),
            replicas,
            |rank, strategy| {
                let block = block(|at| at as f32 / 8.0 + 100.0 * rank as f32);
                let before = bytes(&block);
                let known = train(&strategy.unwrap(), &block);
                // Between the parts the block is the program's alone.
                assert_eq!(bytes(&block)[GAP], before[GAP]);
                without_gap(known)
            },
        );
        for came in came {
            assert!(came == without_gap(expected.clone()), "{size}×{replicas}");
        }
    }
}

/// The bytes between the parts.
const GAP: std::ops::Range<usize> = 11 * 4..16 * 4;

fn without_gap(mut known: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for bytes in &mut known {
        bytes.drain(GAP);
    }
    known
}

/// What one rank alone cannot make, none makes: the others are told at once, and all continue.
#[test]
fn views_that_one_rank_cannot_use_are_refused_on_all() {
    for (size, replicas) in SPLITS {
        for failing in 0..size {
            for wrong in 0..PARTS.len() {
                on_ranks(&ranks(size), replicas, |rank, strategy| {
                    let strategy = strategy.unwrap();
                    let block = block(|at| at as f32 + rank as f32);
                    let before = bytes(&block);
                    let fails = rank == failing;
                    let error = make(&strategy, &block, fails.then_some(wrong)).unwrap_err();
                    let text = error.to_string();
                    assert_eq!(error.status(), Status::InvalidArgument, "{text}");
                    assert!(text.contains(&format!("views[{wrong}]")), "{text}");
                    assert_eq!(
                        text.contains(&format!("rank {failing} failed")),
                        !fails,
                        "{text}"
                    );
                    assert_eq!(bytes(&block), before);
                    let made = make(&strategy, &block, None).unwrap();
                    assert_eq!(made.len(), PARTS.len());
                    let first = bytes(&read(&made[0]).unwrap());
                    assert_eq!(first, bytes(&tensor(&[0f32, 1.0, 2.0, 3.0, 4.0], &[5])));
                });
            }
        }
    }
}
