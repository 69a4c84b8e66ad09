//! Elements of several datasets, each from one that is drawn by weights.

use umbo_core::error::Status;
use umbo_core::input::{Cardinality, Dataset, SampleOptions};

use crate::common::{all, fails, ints, numbers, rest};

fn range(first: i64, count: i64) -> Dataset {
    Dataset::range(first, first + count, 1).unwrap()
}

fn sampled(datasets: &[Dataset], weights: &[f64], options: SampleOptions) -> Dataset {
    Dataset::sample(datasets, Some(weights), &options).unwrap()
}

fn with_seed(seed: u64) -> SampleOptions {
    SampleOptions {
        seed,
        ..Default::default()
    }
}

/// The numbers of one pass.
fn pass(dataset: &Dataset) -> Vec<i64> {
    let read = |element: &umbo_core::values::Value| {
        element.tensor_of(0).unwrap().to_vec::<i64>().unwrap()[0]
    };
    rest(&dataset.iterator().unwrap(), read)
}

#[test]
fn datasets_are_drawn_in_proportion_to_their_weights() {
    let endless = [0, 1, 2].map(|number| range(number, 1).repeat(-1).unwrap());
    let drawn = sampled(&endless, &[6.0, 0.0, 2.0], with_seed(5));
    assert_eq!(drawn.cardinality(), Cardinality::Endless);
    let drawn = pass(&drawn.take(4000).unwrap());
    let count = |number: i64| drawn.iter().filter(|&&drawn| drawn == number).count();
    assert_eq!(count(1), 0);
    // The standard deviation is 27.
    assert!((2890..=3110).contains(&count(0)), "{}", count(0));
    assert_eq!(count(0) + count(2), 4000);
}

#[test]
fn each_dataset_keeps_its_order_and_all_elements_come() {
    let datasets = [range(0, 30), range(100, 5), range(200, 12)];
    let mixed = Dataset::sample(&datasets, None, &with_seed(1)).unwrap();
    assert_eq!(mixed.cardinality(), Cardinality::Exact(47));
    let came = pass(&mixed);
    for (first, count) in [(0, 30), (100, 5), (200, 12)] {
        let of_one: Vec<i64> = came
            .iter()
            .copied()
            .filter(|number| (first..first + 100).contains(number))
            .collect();
        assert_eq!(of_one, (first..first + count).collect::<Vec<_>>());
    }
    assert_eq!(came.len(), 47);
    assert!(came[..20].iter().any(|&number| number >= 200), "{came:?}");
}

/// With one dataset drawn that has ended, the pass ends: what came was all of that dataset.
#[test]
fn a_sample_may_stop_with_the_first_dataset() {
    let options = SampleOptions {
        stop_on_empty: true,
        ..with_seed(3)
    };
    let mixed = sampled(&[range(0, 4), range(100, 40)], &[1.0, 1.0], options);
    assert_eq!(mixed.cardinality(), Cardinality::Unknown);
    let came = pass(&mixed);
    let firsts: Vec<i64> = came
        .iter()
        .copied()
        .filter(|&number| number < 100)
        .collect();
    assert_eq!(firsts, [0, 1, 2, 3]);
    assert!(came.len() < 30, "{came:?}");
    let only = sampled(&[range(0, 4), range(100, 40)], &[0.0, 1.0], options);
    assert_eq!(only.cardinality(), Cardinality::Exact(40));
    assert_eq!(pass(&only).len(), 40);
}

/// As with a shuffle: the seed decides, and each pass and each round draws anew unless options say
/// otherwise.
#[test]
fn draws_depend_on_the_seed_and_the_pass() {
    let datasets = [range(0, 40), range(100, 40)];
    let mixed = |options| sampled(&datasets, &[1.0, 1.0], options);
    let one = mixed(with_seed(1));
    let passes = [pass(&one), pass(&one)];
    assert_ne!(passes[0], passes[1]);
    let again = mixed(with_seed(1));
    assert_eq!([pass(&again), pass(&again)], passes);
    assert_ne!(pass(&mixed(with_seed(2))), passes[0]);
    let twice = pass(&mixed(with_seed(1)).repeat(2).unwrap());
    assert_eq!(twice[..80], passes[0]);
    assert_ne!(twice[80..], passes[0]);
    let kept = mixed(SampleOptions {
        keep_order_each_pass: true,
        ..with_seed(1)
    });
    assert_eq!(pass(&kept), pass(&kept));
    assert_eq!(pass(&kept.repeat(2).unwrap())[80..], pass(&kept));
}

#[test]
fn shards_of_a_sample_make_up_the_whole() {
    let keeps = SampleOptions {
        keep_order_each_pass: true,
        ..with_seed(4)
    };
    let mixed = Dataset::sample(&[numbers(8), numbers(8)], None, &keeps).unwrap();
    let whole = all(&mixed);
    for index in 0..2 {
        let part = rest(&mixed.shard(2, index).unwrap().iterator().unwrap(), ints);
        let expected = whole.iter().skip(index as usize).step_by(2);
        assert_eq!(part, expected.cloned().collect::<Vec<_>>());
    }
}

#[test]
fn samples_that_make_no_sense_are_refused() {
    let datasets = [range(0, 4), range(0, 4)];
    let sample = |weights: &[f64]| Dataset::sample(&datasets, Some(weights), &Default::default());
    let refused = |weights: &[f64], part| fails(sample(weights), Status::InvalidArgument, part);
    refused(&[1.0], "1 weights for 2 datasets");
    refused(
        &[1.0, -1.0],
        "-1 for dataset 1; weights are finite and 0 or more",
    );
    refused(&[f64::NAN, 1.0], "NaN for dataset 0");
    refused(&[f64::INFINITY, 1.0], "inf for dataset 0");
    refused(&[0.0, 0.0], "their sum is 0");
    refused(&[f64::MAX, f64::MAX], "their sum is inf");
    let none = Dataset::sample(&[], None, &Default::default());
    fails(none, Status::InvalidArgument, "datasets: none");
    let differ = Dataset::sample(&[range(0, 4), numbers(4)], None, &Default::default());
    fails(
        differ,
        Status::InvalidArgument,
        "structure, dtypes and ranks",
    );
}
