//! Reductions, gathers, copies and assignments against a plain model.

use crate::for_each_model;
use crate::model::{Model, Placing, bytes_of, elements, group, placed};
use half::{bf16, f16};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::collectives::{Assignment, ReduceOp, combine_into, copy_to, gather, reduce};
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::tensor::{DType, Element, Shape, Tensor, TensorMut};

pub const HOST: DeviceId = DeviceId::HOST;

/// The right to write a tensor of a test, which has it for itself.
pub fn exclusive(tensor: &Tensor) -> TensorMut<'_> {
    // SAFETY: no test has threads of its own, and none reads what it has written before it is
    // there.
    unsafe { tensor.assume_exclusive() }
}

pub fn tensor<T: Element>(data: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(data, Shape::new(shape).unwrap(), HOST).unwrap()
}

pub fn row<T: Element>(data: &[T]) -> Tensor {
    tensor(data, &[data.len()])
}

pub fn same_bits<T: Element>(result: &Tensor, expected: &[T]) {
    assert_eq!(result.dtype(), T::DTYPE);
    let expected = bytes_of(&tensor(expected, &result.shape()));
    let actual = bytes_of(result);
    let is_nan = |bytes: &[u8]| match T::DTYPE {
        DType::Float32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::Float64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::Float16 => f16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        DType::BFloat16 => bf16::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    };
    let size = T::DTYPE.size();
    for (position, (actual, expected)) in actual.chunks(size).zip(expected.chunks(size)).enumerate()
    {
        assert!(
            actual == expected || is_nan(actual) && is_nan(expected),
            "{} at {position}: {actual:x?}, not {expected:x?}",
            T::DTYPE
        );
    }
}

pub fn fails(
    result: umbo_core::error::Result<impl std::fmt::Debug>,
    status: Status,
    needles: &[&str],
) {
    let error = result.unwrap_err();
    let message = error.to_string();
    assert_eq!(error.status(), status, "{message}");
    for needle in needles {
        assert!(
            message.contains(needle),
            "'{message}' does not say '{needle}'"
        );
    }
}

fn over_replicas<T: Model>(shape: &[usize], replicas: usize, places: &[Placing], seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (components, models): (Vec<_>, Vec<_>) = (0..replicas)
        .map(|replica| {
            placed::<T>(shape, places[replica % places.len()], || {
                T::any(&mut random)
            })
        })
        .unzip();
    let columns: Vec<_> = models.iter().map(elements).collect();
    let count = columns[0].len();
    let column = |position: usize| {
        columns
            .iter()
            .map(|column| column[position])
            .collect::<Vec<_>>()
    };
    let sum: Vec<T> = (0..count)
        .map(|position| T::sum(&column(position)))
        .collect();
    let mean: Vec<T::Mean> = (0..count)
        .map(|position| T::mean(&column(position)))
        .collect();
    same_bits(
        &reduce(ReduceOp::Sum, &components, None, HOST, None).unwrap(),
        &sum,
    );
    same_bits(
        &reduce(ReduceOp::Mean, &components, Some(&[]), HOST, None).unwrap(),
        &mean,
    );

    // Into a tensor of the caller's, strided like the first component.
    let (output, _) = placed::<T>(shape, places[0], || T::any(&mut random));
    let result = reduce(
        ReduceOp::Sum,
        &components,
        None,
        HOST,
        Some(exclusive(&output)),
    )
    .unwrap();
    assert!(result.is_same(&output));
    same_bits(&output, &sum);
}

fn over_axes<T: Model>(
    shape: &[usize],
    axes: &[usize],
    replicas: usize,
    places: &[Placing],
    seed: u64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut groups = Vec::new();
    let mut components = Vec::new();
    for replica in 0..replicas {
        let mut part = shape.to_vec();
        for &axis in axes {
            // Parts differ in size, and some are empty.
            part[axis] = (part[axis] + replica * 2) % (shape[axis] + 2);
        }
        let place = places[replica % places.len()];
        let (component, model) = placed::<T>(&part, place, || T::simple(&mut random));
        group(&model, axes, &mut groups);
        components.push(component);
    }
    let sum: Vec<T> = groups.iter().map(|group| T::exact_sum(group)).collect();
    let mean: Vec<T::Mean> = groups.iter().map(|group| T::exact_mean(group)).collect();
    let rank = shape.len() as i64;
    let mixed: Vec<i64> = axes
        .iter()
        .map(|&axis| {
            if axis % 2 == 0 {
                axis as i64
            } else {
                axis as i64 - rank
            }
        })
        .collect();
    same_bits(
        &reduce(ReduceOp::Sum, &components, Some(&mixed), HOST, None).unwrap(),
        &sum,
    );
    same_bits(
        &reduce(ReduceOp::Mean, &components, Some(&mixed), HOST, None).unwrap(),
        &mean,
    );
}

/// The extremes over replicas and, unless there are none, over axes. All bits of a result are
/// promised, those of NaN and of zeros as well.
fn extremes<T: Model>(
    shape: &[usize],
    axes: &[usize],
    replicas: usize,
    places: &[Placing],
    seed: u64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut groups = Vec::new();
    let mut components = Vec::new();
    for replica in 0..replicas {
        let mut part = shape.to_vec();
        for &axis in axes {
            // Parts differ in size, and some are empty, or all.
            part[axis] = (part[axis] + replica * 2) % (shape[axis] + 1);
        }
        let place = places[replica % places.len()];
        // Few are special, so that not every result is.
        let mut make = || match random.random_range(0..8) {
            0 => T::special(&mut random),
            _ => T::any(&mut random),
        };
        let (component, model) = placed::<T>(&part, place, &mut make);
        group(&model, axes, &mut groups);
        components.push(component);
    }
    let list: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
    let mut reversed = components.clone();
    reversed.reverse();
    for (op, largest) in [(ReduceOp::Min, false), (ReduceOp::Max, true)] {
        let result = reduce(op, &components, Some(&list), HOST, None);
        let expected: Option<Vec<T>> = groups
            .iter()
            .map(|group| T::extreme(group, largest))
            .collect();
        let Some(expected) = expected else {
            fails(result, Status::InvalidArgument, &["empty", op.name()]);
            continue;
        };
        let result = result.unwrap();
        assert_eq!(result.dtype(), T::DTYPE);
        let expected = bytes_of(&tensor(&expected, &result.shape()));
        assert_eq!(bytes_of(&result), expected, "{} of {}", op.name(), T::DTYPE);
        let again = reduce(op, &reversed, Some(&list), HOST, None).unwrap();
        assert_eq!(bytes_of(&again), expected, "replicas in another order");
    }
}

fn copies_and_assignments<T: Model>(shape: &[usize], from: Placing, to: Placing, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (from, from_model) = placed::<T>(shape, from, || T::any(&mut random));
    let copy = copy_to(&from, HOST).unwrap();
    assert!(copy.layout().is_contiguous() && !copy.overlaps(&from));
    same_bits(&copy, &elements(&from_model));
    for assignment in [Assignment::Assign, Assignment::Add, Assignment::Subtract] {
        let (to, to_model) = placed::<T>(shape, to, || T::any(&mut random));
        combine_into(assignment, &mut exclusive(&to), &from).unwrap();
        let pairs = to_model.iter().zip(from_model.iter());
        let expected: Vec<T> = pairs
            .map(|(&to, &from)| match assignment {
                Assignment::Assign => from,
                Assignment::Add => to.plus(from),
                Assignment::Subtract => to.minus(from),
            })
            .collect();
        same_bits(&to, &expected);
        exclusive(&to).fill_zeros().unwrap();
        assert!(bytes_of(&to).iter().all(|&byte| byte == 0));
    }
}

fn gathered<T: Model>(
    shape: &[usize],
    axis: usize,
    replicas: usize,
    places: &[Placing],
    seed: u64,
) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (components, models): (Vec<_>, Vec<_>) = (0..replicas)
        .map(|replica| {
            let mut part = shape.to_vec();
            part[axis] = (part[axis] + replica) % 4;
            placed::<T>(&part, places[replica % places.len()], || {
                T::any(&mut random)
            })
        })
        .unzip();
    let views: Vec<_> = models.iter().map(|model| model.view()).collect();
    let expected = ndarray::concatenate(ndarray::Axis(axis), &views).unwrap();
    let result = gather(&components, axis as i64 - shape.len() as i64, HOST, None).unwrap();
    assert_eq!(&*result.shape(), expected.shape());
    same_bits(&result, &elements(&expected));
    let output = Tensor::zeros(T::DTYPE, result.shape(), HOST).unwrap();
    assert!(
        gather(&components, axis as i64, HOST, Some(exclusive(&output)))
            .unwrap()
            .is_same(&output)
    );
    same_bits(&output, &elements(&expected));
}

fn a_shape(rank: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0usize..6, rank)
}

fn some_places() -> impl Strategy<Value = Vec<Placing>> {
    proptest::collection::vec(proptest::sample::select(&Placing::ALL[..]), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: 48,
        ..ProptestConfig::default()
    })]

    #[test]
    fn replicas_match_the_model(
        shape in a_shape(0..=4), replicas in 1usize..10, places in some_places(), seed: u64
    ) {
        for_each_model!(over_replicas(&shape, replicas, &places, seed));
    }

    #[test]
    fn axes_match_the_model(
        shape in a_shape(1..=4), mask in 1usize..16, replicas in 1usize..6,
        places in some_places(), seed: u64
    ) {
        let axes: Vec<_> = (0..shape.len()).filter(|axis| mask >> axis & 1 == 1).collect();
        prop_assume!(!axes.is_empty());
        for_each_model!(over_axes(&shape, &axes, replicas, &places, seed));
    }

    #[test]
    fn extremes_match_the_model(
        shape in a_shape(0..=4), mask in 0usize..16, replicas in 1usize..10,
        places in some_places(), seed: u64
    ) {
        let axes: Vec<_> = (0..shape.len()).filter(|axis| mask >> axis & 1 == 1).collect();
        for_each_model!(extremes(&shape, &axes, replicas, &places, seed));
    }

    #[test]
    fn copies_match_the_model(
        shape in a_shape(0..=4), from in proptest::sample::select(&Placing::ALL[..]),
        to in proptest::sample::select(&Placing::ALL[..]), seed: u64
    ) {
        for_each_model!(copies_and_assignments(&shape, from, to, seed));
    }

    #[test]
    fn gathers_match_the_model(
        shape in a_shape(1..=4), axis in 0usize..4, replicas in 1usize..6,
        places in some_places(), seed: u64
    ) {
        let axis = axis % shape.len();
        for_each_model!(gathered(&shape, axis, replicas, &places, seed));
    }
}
