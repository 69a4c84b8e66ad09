//! Reductions, gathers, copies and assignments against a plain model, and what they promise about
//! bits, dtypes and errors.

use std::hash::{DefaultHasher, Hasher};
use std::slice::from_ref;

use crate::for_each_model;
use crate::model::{Model, Placing, bytes_of, elements, group, placed};
use crate::sets::same_in_every_set;
use half::{bf16, f16};
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::collectives::{
    Assignment, ReduceOp, combine_into, copy_into, copy_to, gather, reduce,
};
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::streaming;
use umbo_core::tensor::{DType, Element, Shape, Tensor, TensorMut};

const HOST: DeviceId = DeviceId::HOST;

/// The right to write a tensor of a test, which has it for itself.
fn exclusive(tensor: &Tensor) -> TensorMut<'_> {
    // SAFETY: no test has threads of its own, and none reads what it has written before it is
    // there.
    unsafe { tensor.assume_exclusive() }
}

fn tensor<T: Element>(data: &[T], shape: &[usize]) -> Tensor {
    Tensor::from_slice(data, Shape::new(shape).unwrap(), HOST).unwrap()
}

fn row<T: Element>(data: &[T]) -> Tensor {
    tensor(data, &[data.len()])
}

fn same_bits<T: Element>(result: &Tensor, expected: &[T]) {
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

/// Results of everything that is split between workers, on inputs that are large enough for it.
fn large_results(components: &[Tensor]) -> Vec<Vec<u8>> {
    let mean = |axes: &[i64]| reduce(ReduceOp::Mean, components, Some(axes), HOST, None).unwrap();
    let sum = |count| reduce(ReduceOp::Sum, &components[..count], None, HOST, None).unwrap();
    let extreme = |op, axes: &[i64]| reduce(op, components, Some(axes), HOST, None).unwrap();
    let added = copy_to(&components[0], HOST).unwrap();
    combine_into(Assignment::Add, &mut exclusive(&added), &components[1]).unwrap();
    [
        mean(&[]),
        mean(&[0]),
        mean(&[-1]),
        sum(1),
        sum(2),
        added,
        extreme(ReduceOp::Min, &[]),
        extreme(ReduceOp::Max, &[]),
        extreme(ReduceOp::Min, &[0]),
        extreme(ReduceOp::Max, &[-1]),
    ]
    .iter()
    .map(bytes_of)
    .collect()
}

/// Gathers along both axes: runs that are whole cache lines, and runs that are not.
fn large_gathers<T: Model>(random: &mut ChaCha8Rng) -> impl Fn() -> Vec<Vec<u8>> + use<T> {
    let parts = |sizes: [[usize; 2]; 3], random: &mut ChaCha8Rng| {
        sizes.map(|size| placed(&size, Placing::Contiguous, || T::any(random)).0)
    };
    let along_rows = parts([[300, 65], [0, 65], [517, 65]], random);
    let along_columns = parts([[300, 67], [300, 1], [300, 64]], random);
    move || {
        let all = |components: &[Tensor], axis| {
            let fresh = gather(components, axis, HOST, None).unwrap();
            // An output that begins in the middle of a cache line.
            let room = Shape::new(&[fresh.shape().elements() + 1]).unwrap();
            let room = Tensor::zeros(T::DTYPE, room, HOST).unwrap();
            let output = room.slice(0, 1, room.shape()[0], 1).unwrap();
            let output = output.reshape(fresh.shape()).unwrap();
            gather(components, axis, HOST, Some(exclusive(&output))).unwrap();
            assert_eq!(bytes_of(&fresh), bytes_of(&output));
            bytes_of(&fresh)
        };
        vec![all(&along_rows, 0), all(&along_columns, 1)]
    }
}

/// The same bits for every number of workers, and with outputs streamed or stored: a digest of them
/// is added to `all`.
fn same_for_all_settings(all: &mut Vec<u8>, case: &str, results: impl Fn() -> Vec<Vec<u8>>) {
    let is_best = Some(Instructions::chosen()) == Instructions::all().next_back();
    let mut settings = vec![(usize::MAX, 1), (1, 1)];
    // The other sets have the same loops, and need not be tried with every number.
    settings.extend(
        [2, 3, 8]
            .into_iter()
            .filter(|_| is_best)
            .map(|count| (1, count)),
    );
    let mut first = None;
    // So that several take part in what several could.
    workers::fix_costs(Some(workers::Costs::NONE));
    for (from, count) in settings {
        streaming::select(from);
        workers::set_count(count).unwrap();
        let results = results();
        let first = first.get_or_insert_with(|| results.clone());
        assert!(
            *first == results,
            "{case}: streamed from {from}, {count} workers"
        );
    }
    for result in first.unwrap() {
        let mut hasher = DefaultHasher::new();
        hasher.write(&result);
        all.extend(hasher.finish().to_ne_bytes());
    }
}

fn same_for_all_settings_of<T: Model>(all: &mut Vec<u8>) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let places = [Placing::Contiguous, Placing::Transposed];
    let components: Vec<_> = (0..5)
        .map(|replica| placed(&[3, 83, 181], places[replica % 2], || T::any(&mut random)).0)
        .collect();
    same_for_all_settings(all, T::DTYPE.name(), || large_results(&components));
    let dense: Vec<_> = components.into_iter().step_by(2).collect();
    same_for_all_settings(all, T::DTYPE.name(), || large_results(&dense));
    same_for_all_settings(all, T::DTYPE.name(), large_gathers::<T>(&mut random));
}

// One test for everything that changes the settings, which are the process's: what the others
// compute must not depend on them.
#[test]
fn bits_depend_on_neither_workers_nor_instructions() {
    same_in_every_set(
        "reduce::bits_depend_on_neither_workers_nor_instructions",
        || {
            let mut all = Vec::new();
            bits_for_all_settings(&mut all);
            all
        },
    );
}

fn bits_for_all_settings(all: &mut Vec<u8>) {
    for_each_model!(same_for_all_settings_of(all));

    // Few results of many elements, walked across neighbouring results and result by result: the
    // order of additions is the same.
    let mut random = ChaCha8Rng::seed_from_u64(8);
    let (matrix, _) = placed(&[34_001, 17], Placing::Contiguous, || f32::any(&mut random));
    let across = [matrix];
    let along = [copy_to(&across[0].transpose(&[1, 0]).unwrap(), HOST).unwrap()];
    same_for_all_settings(all, "many elements", || {
        let across = reduce(ReduceOp::Sum, &across, Some(&[0]), HOST, None).unwrap();
        let along = reduce(ReduceOp::Sum, &along, Some(&[1]), HOST, None).unwrap();
        assert_eq!(bytes_of(&across), bytes_of(&along));
        vec![bytes_of(&across)]
    });
    let mut groups = Vec::new();
    let (matrix, model) = placed(&[34_001, 17], Placing::Contiguous, || i32::any(&mut random));
    group(&model, &[0], &mut groups);
    let expected: Vec<_> = groups.iter().map(|group| i32::exact_mean(group)).collect();
    same_bits(
        &reduce(ReduceOp::Mean, &[matrix], Some(&[0]), HOST, None).unwrap(),
        &expected,
    );
}

#[test]
fn sums_accumulate_wide_and_integers_wrap() {
    let sum = |components: &[Tensor]| reduce(ReduceOp::Sum, components, None, HOST, None).unwrap();
    let over_axis =
        |tensor: Tensor| reduce(ReduceOp::Sum, &[tensor], Some(&[0]), HOST, None).unwrap();
    let values = [1e8f32, 1.0, -1e8, 1.0];
    same_bits(&sum(&values.map(|value| row(&[value]))), &[2.0f32]);
    same_bits(&over_axis(row(&values)), &[2.0f32]);
    let values = [256.0, 1.0, 1.0, 1.0].map(bf16::from_f32);
    // 259 lies between 258 and 260; the tie goes to the even one.
    same_bits(
        &sum(&values.map(|value| row(&[value]))),
        &[bf16::from_f32(260.0)],
    );
    same_bits(&over_axis(row(&values)), &[bf16::from_f32(260.0)]);
    same_bits(&sum(&[row(&[200u8]), row(&[100u8])]), &[44u8]);
    same_bits(&sum(&[row(&[i32::MAX]), row(&[1i32])]), &[i32::MIN]);
    same_bits(&over_axis(row(&[200u8, 100])), &[44u8]);
    // Denormals stay.
    let smallest = bf16::from_bits(1);
    same_bits(
        &sum(&[row(&[smallest]), row(&[smallest])]),
        &[bf16::from_bits(2)],
    );
}

#[test]
fn means_divide_exactly_and_by_the_whole_count() {
    let mean = |components: &[Tensor], axes: Option<&[i64]>| {
        reduce(ReduceOp::Mean, components, axes, HOST, None).unwrap()
    };
    same_bits(
        &mean(
            &[row(&[0.0f32, 1.0, 2.0, 3.0]), row(&[4.0f32, 5.0])],
            Some(&[0]),
        ),
        &[2.5f32],
    );
    // One component has the dtype of many.
    same_bits(&mean(&[row(&[7i32])], None), &[7.0f64]);
    same_bits(&mean(&[row(&[3i16]), row(&[4i16])], None), &[3.5f32]);
    // Neither the sum nor the count is held in the integers' type.
    let many = row(&vec![255u8; 300]);
    same_bits(&mean(&[many.clone(), many], Some(&[0])), &[255.0f32]);
    same_bits(
        &mean(&[row(&[u64::MAX]), row(&[u64::MAX])], None),
        &[u64::MAX as f64],
    );
    let empty = || row::<i32>(&[]);
    same_bits(&mean(&[row(&[1i32, 2]), empty()], Some(&[0])), &[1.5f64]);
    same_bits(&mean(&[empty(), empty()], Some(&[0])), &[f64::NAN]);
    let sum = reduce(ReduceOp::Sum, &[empty(), empty()], Some(&[0]), HOST, None).unwrap();
    same_bits(&sum, &[0i32]);
    // All axes, and the example with 28 of the reference's guide.
    let parts = [
        tensor(&[0i32, 1, 2, 3], &[4, 1]),
        tensor(&[4i32, 5, 6, 7], &[4, 1]),
    ];
    same_bits(
        &reduce(ReduceOp::Sum, &parts, Some(&[0, 1]), HOST, None).unwrap(),
        &[28i32],
    );
}

#[test]
fn extremes_of_bool_are_all_and_any() {
    let flags = |bytes: &[u8]| {
        let shape = Shape::new(&[bytes.len()]).unwrap();
        Tensor::from_bytes(DType::Bool, shape, bytes, HOST).unwrap()
    };
    let parts = [flags(&[0, 0, 1, 1]), flags(&[0, 1, 0, 1])];
    for (op, over_replicas, over_both) in [
        (ReduceOp::Min, [0, 0, 0, 1], 0),
        (ReduceOp::Max, [0, 1, 1, 1], 1),
    ] {
        let result = reduce(op, &parts, None, HOST, None).unwrap();
        assert_eq!(result.dtype(), DType::Bool);
        assert_eq!(bytes_of(&result), over_replicas);
        let result = reduce(op, &parts, Some(&[0]), HOST, None).unwrap();
        assert_eq!(bytes_of(&result), [over_both]);
    }
}

#[test]
fn extremes_of_no_elements_are_refused_unless_there_is_no_result() {
    let empty = || row::<f32>(&[]);
    let min = |components: &[Tensor], axes: &[i64]| {
        reduce(ReduceOp::Min, components, Some(axes), HOST, None)
    };
    fails(
        min(&[empty(), empty()], &[0]),
        Status::InvalidArgument,
        &["all components are empty", "MIN"],
    );
    same_bits(&min(&[empty(), row(&[3f32, 2.0])], &[0]).unwrap(), &[2f32]);
    assert_eq!(min(&[empty(), empty()], &[]).unwrap().shape()[0], 0);
    let no_columns = || tensor::<f32>(&[], &[2, 0]);
    assert_eq!(
        min(&[no_columns(), no_columns()], &[0]).unwrap().shape()[0],
        0
    );
}

/// As many elements as no 32-bit number counts. To be run with `make test-large`.
#[test]
#[ignore = "needs 10 GiB of memory"]
fn more_than_two_to_the_31_elements_are_reduced_and_gathered() {
    let count = (1usize << 31) + 77;
    let filled = |last: u8| {
        let tensor = Tensor::zeros(DType::UInt8, Shape::new(&[count]).unwrap(), HOST).unwrap();
        let end = tensor.slice(0, count - 1, count, 1).unwrap();
        exclusive(&end).copy_from(&row(&[last])).unwrap();
        tensor
    };
    let at = |tensor: &Tensor, position: usize| {
        tensor
            .slice(0, position, position + 1, 1)
            .unwrap()
            .to_vec::<u8>()
            .unwrap()[0]
    };
    let parts = [filled(3), filled(4)];
    let sum = reduce(ReduceOp::Sum, &parts, None, HOST, None).unwrap();
    assert_eq!(
        [0, count / 2, count - 2, count - 1].map(|position| at(&sum, position)),
        [0, 0, 0, 7]
    );
    let total = reduce(ReduceOp::Mean, &parts, Some(&[0]), HOST, None).unwrap();
    same_bits(&total, &[(7.0 / (2.0 * count as f64)) as f32]);
    drop(sum);
    let both = gather(&parts, 0, HOST, None).unwrap();
    assert_eq!(both.shape()[0], 2 * count);
    let positions = [count - 2, count - 1, count, 2 * count - 2, 2 * count - 1];
    assert_eq!(
        positions.map(|position| at(&both, position)),
        [0, 3, 0, 0, 4]
    );
}

fn fails(result: umbo_core::error::Result<impl std::fmt::Debug>, status: Status, needles: &[&str]) {
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

#[test]
fn reductions_refuse_what_does_not_fit() {
    let sum = |components: &[Tensor], axes: Option<&[i64]>, output: Option<&Tensor>| {
        reduce(ReduceOp::Sum, components, axes, HOST, output.map(exclusive))
    };
    let invalid = Status::InvalidArgument;
    let pair = [row(&[1f32, 2.0]), row(&[3f32, 4.0])];
    fails(sum(&[], None, None), invalid, &["no components"]);
    let uneven = [tensor(&[1f32; 8], &[4, 2]), tensor(&[1f32; 6], &[3, 2])];
    let shapes = ["replica 0 [4, 2]", "replica 1 [3, 2]"];
    fails(
        sum(&uneven, None, None),
        invalid,
        &[shapes[0], shapes[1], "on each replica first"],
    );
    fails(
        sum(&uneven, Some(&[]), None),
        invalid,
        &[shapes[0], shapes[1], "pass axes = {0}"],
    );
    fails(
        sum(&uneven, Some(&[1]), None),
        invalid,
        &["replica 1 [3, 2]", "add 0 to axes"],
    );
    fails(
        sum(&[pair[0].clone(), row(&[1i32, 2])], None, None),
        invalid,
        &["replica 1 int32"],
    );
    fails(
        sum(&[pair[0].clone(), tensor(&[1f32], &[])], None, None),
        invalid,
        &["ranks"],
    );
    fails(
        sum(&pair, Some(&[1]), None),
        Status::OutOfRange,
        &["[-1, 1)"],
    );
    fails(sum(&pair, Some(&[0, -1]), None), invalid, &["twice"]);
    let scalar = Tensor::scalar(1f32).unwrap();
    fails(
        sum(from_ref(&scalar), Some(&[0]), None),
        Status::OutOfRange,
        &["axis"],
    );
    let flags = Tensor::from_bytes(DType::Bool, Shape::new(&[2]).unwrap(), &[0, 1], HOST).unwrap();
    fails(sum(from_ref(&flags), None, None), invalid, &["bool"]);
    fails(sum(from_ref(&flags), Some(&[0]), None), invalid, &["bool"]);
    fails(
        combine_into(Assignment::Add, &mut exclusive(&flags), &flags),
        invalid,
        &["bool"],
    );
    fails(sum(&pair, None, Some(&scalar)), invalid, &["output", "[2]"]);
    fails(
        sum(&pair, None, Some(&row(&[0i32; 2]))),
        invalid,
        &["output", "float32"],
    );
    fails(
        sum(&pair, None, Some(&pair[1])),
        invalid,
        &["output", "replica 1"],
    );
    fails(
        copy_into(&pair[0], &mut exclusive(&scalar)),
        invalid,
        &["[2]"],
    );
}

#[test]
fn gathers_refuse_what_does_not_fit_and_take_any_dtype() {
    let invalid = Status::InvalidArgument;
    let all = |components: &[Tensor], axis| gather(components, axis, HOST, None);
    let parts = [tensor(&[1f32; 6], &[2, 3]), tensor(&[1f32; 8], &[2, 4])];
    fails(
        all(&parts, 0),
        invalid,
        &["replica 0 [2, 3]", "replica 1 [2, 4]"],
    );
    fails(all(&parts, 2), Status::OutOfRange, &["[-2, 2)"]);
    fails(
        all(&[parts[0].clone(), row(&[1f32])], 0),
        invalid,
        &["ranks", "replica 1 [1]"],
    );
    fails(
        all(&[row(&[1f32]), row(&[1i8])], 0),
        invalid,
        &["replica 1 int8"],
    );
    fails(
        all(&[Tensor::scalar(1f32).unwrap()], 0),
        invalid,
        &["scalars"],
    );
    fails(
        gather(&parts, 1, HOST, Some(exclusive(&parts[0]))),
        invalid,
        &["output"],
    );
    let huge = Shape::new(&[0, 1 << 40]).unwrap();
    let huge = Tensor::zeros(DType::Float32, huge, HOST).unwrap();
    fails(all(&vec![huge; 1 << 23], 1), invalid, &["shape"]);
    let flags = |bytes: &[u8]| {
        Tensor::from_bytes(
            DType::Bool,
            Shape::new(&[bytes.len()]).unwrap(),
            bytes,
            HOST,
        )
        .unwrap()
    };
    let result = all(&[flags(&[1, 0]), flags(&[]), flags(&[1])], 0).unwrap();
    assert_eq!(
        (result.dtype(), bytes_of(&result)),
        (DType::Bool, vec![1, 0, 1])
    );
}

#[test]
fn assignments_may_share_memory() {
    let base = row(&[1i32, 2, 3, 4]);
    let low = base.slice(0, 0, 3, 1).unwrap();
    let high = base.slice(0, 1, 4, 1).unwrap();
    combine_into(Assignment::Assign, &mut exclusive(&high), &low).unwrap();
    same_bits(&base, &[1i32, 1, 2, 3]);
    combine_into(Assignment::Add, &mut exclusive(&base), &base).unwrap();
    same_bits(&base, &[2i32, 2, 4, 6]);
    combine_into(Assignment::Assign, &mut exclusive(&base), &base).unwrap();
    combine_into(Assignment::Subtract, &mut exclusive(&low), &high).unwrap();
    same_bits(&base, &[0i32, -2, -2, 6]);
    assert_eq!(base.to_vec::<i32>().unwrap(), [0, -2, -2, 6]);
    fails(base.to_vec::<f32>(), Status::InvalidArgument, &["int32"]);
    fails(
        base.copy_to_host(&mut [0; 3]),
        Status::InvalidArgument,
        &["16"],
    );
}
