//! Reductions, gathers and assignments have the same bits for every number of workers, set of
//! instructions, and way of writing.

use std::hash::{DefaultHasher, Hasher};

use crate::for_each_model;
use crate::model::{Model, Placing, bytes_of, group, placed};
use crate::reduce::{HOST, exclusive, same_bits};
use crate::sets::same_in_every_set;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use umbo_core::collectives::{Assignment, ReduceOp, combine_into, copy_to, gather, reduce};
use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::streaming;
use umbo_core::tensor::{Shape, Tensor};

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
        "reduce_settings::bits_depend_on_neither_workers_nor_instructions",
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
