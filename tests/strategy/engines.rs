//! What engines need that keep memory and threads of their own: gradients that they lend, and what
//! a strategy tells of its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Status};
use umbo_core::optimizer::apply::apply;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer};
use umbo_core::strategy::variables::assign_all::assign_all;
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{DType, Layout, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Variable};

use crate::strategy;

fn variable(strategy: &Strategy, numbers: &[f32]) -> Variable {
    let shape = Shape::new(&[numbers.len()]).unwrap();
    let value = Tensor::from_slice(numbers, shape, DeviceId::HOST).unwrap();
    let new = crate::fresh::new_variable("w", Aggregation::None);
    variables::create(Some(strategy), new, Initial::Value(&value)).unwrap()
}

/// Counts when it is dropped.
struct Owner(Arc<AtomicUsize>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A tensor over memory of the engine's, which lives as long as the process.
fn lent(numbers: &[f32], layout: Layout, dropped: &Arc<AtomicUsize>) -> Tensor {
    let memory: &'static mut [f32] = Vec::leak(numbers.to_vec());
    let owner = Box::new(Owner(Arc::clone(dropped)));
    let bytes = size_of_val(memory);
    // SAFETY: the memory is never freed, and nobody else has it.
    #[expect(unsafe_code, reason = "memory of somebody else's")]
    let storage = unsafe {
        Storage::foreign(
            memory.as_mut_ptr().cast(),
            bytes,
            DeviceId::HOST,
            false,
            owner,
        )
    };
    Tensor::from_storage(Arc::new(storage), DType::Float32, layout, 0).unwrap()
}

fn row(elements: usize) -> Layout {
    Layout::row_major(Shape::new(&[elements]).unwrap())
}

fn made(strategy: &Strategy, chosen: &[&Variable], steps: u64) -> Arc<Gradients> {
    let variables = chosen.iter().map(|&variable| variable.clone()).collect();
    let options = GradientsOptions {
        accumulation_steps: steps,
        ..Default::default()
    };
    let devices = strategy.compute_devices();
    Gradients::new(
        strategy.id(),
        devices,
        variables,
        LossReduction::Mean,
        options,
    )
    .unwrap()
}

fn adamw(strategy: &Strategy) -> Arc<Optimizer> {
    Optimizer::new(
        strategy.id(),
        Box::new(Adam::adamw(0.9, 0.999, 1e-8, 0.01).unwrap()),
        0.1,
    )
    .unwrap()
}

fn numbers(variable: &Variable) -> Vec<f32> {
    variables::read(variable).unwrap().to_vec::<f32>().unwrap()
}

/// Large enough that workers share the update.
const ELEMENTS: usize = 70_001;

fn gradient(replica: usize, step: usize) -> Vec<f32> {
    (0..ELEMENTS)
        .map(|index| ((index * 7 + replica * 3 + step) % 11) as f32 - 5.0)
        .collect()
}

/// Weights after three runs, whose gradients are lent by the replicas that `lends` names.
fn train(replicas: usize, steps: u64, lends: impl Fn(usize) -> bool + Sync) -> Vec<f32> {
    let strategy = strategy(replicas);
    let weights = variable(&strategy, &vec![1.0; ELEMENTS]);
    let gradients = made(&strategy, &[&weights], steps);
    let optimizer = adamw(&strategy);
    let dropped = Arc::new(AtomicUsize::new(0));
    let lenders = (0..replicas).filter(|&replica| lends(replica)).count();
    for step in 0..3 {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica();
            let numbers = gradient(replica, step);
            if lends(replica) {
                gradients.attach_in(context, 0, lent(&numbers, row(ELEMENTS), &dropped))?;
            } else {
                let buffer = gradients.view_in(context, 0, GradientMode::Overwrite)?;
                let shape = Shape::new(&[ELEMENTS])?;
                let from = Tensor::from_slice(&numbers, shape, DeviceId::HOST)?;
                // SAFETY: the buffer is this replica's until it submits.
                #[expect(unsafe_code, reason = "a buffer is written")]
                unsafe {
                    buffer.assume_exclusive().copy_from(&from)?;
                }
            }
            gradients.submit_in(context, Some(1.0 + replica as f64))?;
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), step * lenders);
        apply(&optimizer, &gradients).unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), (step + 1) * lenders);
    }
    numbers(&weights)
}

#[test]
fn lent_gradients_give_the_bits_of_written_ones() {
    for replicas in 1..=3 {
        for steps in [1, 3] {
            let written = train(replicas, steps, |_| false);
            assert_ne!(written[0], 1.0);
            assert!(train(replicas, steps, |_| true) == written);
            assert!(train(replicas, steps, |replica| replica == replicas - 1) == written);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_and_let_go_of() {
    let strategy = strategy(2);
    let weights = variable(&strategy, &[1.0; 4]);
    let gradients = made(&strategy, &[&weights], 1);
    let dropped = Arc::new(AtomicUsize::new(0));
    let square = Shape::new(&[2, 2]).unwrap();
    let wrong = [
        row(3),
        Layout::row_major(square),
        Layout::strided(square, &[1, 2]).unwrap(),
    ];
    let callback = |context: &ReplicaContext| {
        for layout in &wrong {
            let refused = gradients.attach_in(context, 0, lent(&[0.0; 4], *layout, &dropped));
            assert_eq!(refused.unwrap_err().status(), Status::InvalidArgument);
        }
        let again = || lent(&[0.0; 4], row(4), &dropped);
        gradients.attach_in(context, 0, again())?;
        let twice = gradients.attach_in(context, 0, again()).unwrap_err();
        assert_eq!(twice.status(), Status::FailedPrecondition);
        assert!(gradients.view_in(context, 0, GradientMode::Add).is_err());
        gradients.discard_in(context, 0)?;
        Err(Error::Cancelled("enough".into()))
    };
    assert!(strategy.run(&callback, None).is_err());
    assert_eq!(dropped.load(Ordering::SeqCst), 2 * (wrong.len() + 2));
}

#[test]
fn a_parameter_that_nobody_uses_is_left_alone() {
    for users in 0..=2 {
        let strategy = strategy(2);
        let used = variable(&strategy, &[1.0]);
        let unused = variable(&strategy, &[1.0]);
        let gradients = made(&strategy, &[&used, &unused], 1);
        let optimizer = adamw(&strategy);
        let callback = |context: &ReplicaContext| {
            for index in 0..2 {
                gradients.view_in(context, index, GradientMode::Add)?;
            }
            if context.replica() >= users {
                gradients.discard_in(context, 1)?;
            }
            gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
        apply(&optimizer, &gradients).unwrap();
        // Gradients of zero: what moves weights is their decay.
        assert_ne!(numbers(&used), [1.0]);
        assert_eq!(numbers(&unused) == [1.0], users == 0);
    }
}

fn in_memory(strategy: &Strategy, numbers: &[f32], dropped: &Arc<AtomicUsize>) -> Variable {
    let new = crate::fresh::new_variable("m", Aggregation::Mean);
    let tensor = lent(numbers, row(numbers.len()), dropped);
    // SAFETY: nobody has the memory but the variable.
    #[expect(unsafe_code, reason = "memory of somebody else's")]
    let made = unsafe { create_in_place(strategy, vec![(new, tensor)]) };
    made.unwrap().pop().unwrap()
}

/// The address at which `variable` is between steps.
fn address(variable: &Variable) -> usize {
    // SAFETY: the elements are not read.
    #[expect(unsafe_code, reason = "an address is asked for")]
    unsafe { variables::refreshed_copy(None, variable, variable.dtype()) }
        .unwrap()
        .address()
        .addr()
}

#[test]
fn a_variable_in_somebody_elses_memory_comes_back_to_it() {
    for replicas in 1..=3 {
        let strategy = strategy(replicas);
        let dropped = Arc::new(AtomicUsize::new(0));
        let variable = in_memory(&strategy, &[1.0, 2.0], &dropped);
        let home = address(&variable);
        for step in 0..4 {
            let fails = step == 2;
            let before = numbers(&variable);
            let callback = |context: &ReplicaContext| {
                let value = Tensor::from_slice(
                    &[step as f32, context.replica() as f32],
                    Shape::new(&[2])?,
                    DeviceId::HOST,
                )?;
                // Weights 1, 2, 3, ...; the mean is over these.
                let weight = Some(context.replica() as f64 + 1.0);
                assign_all(
                    context,
                    std::slice::from_ref(&variable),
                    vec![value],
                    weight,
                )?;
                match fails {
                    true => Err(Error::Cancelled("as planned".into())),
                    false => Ok(None),
                }
            };
            assert_eq!(strategy.run(&callback, None).is_err(), fails);
            assert_eq!(address(&variable), home);
            let weights = (1..=replicas).map(|weight| weight as f64);
            let mean = (0..replicas)
                .map(|replica| (replica * (replica + 1)) as f64)
                .sum::<f64>()
                / weights.sum::<f64>();
            let expected = if fails {
                before
            } else {
                vec![step as f32, mean as f32]
            };
            assert_eq!(numbers(&variable), expected);
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(variable);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn batched_assignments_refuse_what_they_cannot_combine() {
    let strategy = strategy(2);
    let other = variable(&strategy, &[1.0]); // of aggregation NONE
    let callback = |context: &ReplicaContext| {
        let value = || Tensor::from_slice(&[2.0f32], Shape::new(&[1])?, DeviceId::HOST);
        let assign = |weight| {
            assign_all(
                context,
                std::slice::from_ref(&other),
                vec![value()?],
                Some(weight),
            )
        };
        assert_eq!(assign(1.0).unwrap_err().status(), Status::InvalidArgument);
        assert_eq!(assign(-1.0).unwrap_err().status(), Status::InvalidArgument);
        assert_eq!(
            assign(f64::NAN).unwrap_err().status(),
            Status::InvalidArgument
        );
        Ok(None)
    };
    strategy.run(&callback, None).unwrap();
    assert_eq!(numbers(&other), [1.0]);
}
