//! How many elements a dataset says that it has, and how many come: all chains of three operations
//! over datasets with, without and perhaps without elements.

use umbo_core::error::Result;
use umbo_core::input::{Cardinality, Dataset, SampleOptions, ShuffleOptions};

use super::common::numbers;

/// More elements than any of these datasets has that ends.
const MANY: usize = 200;

type Operation = (&'static str, fn(&Dataset) -> Result<Dataset>);

const OPERATIONS: [Operation; 18] = [
    ("repeat", |dataset| dataset.repeat(-1)),
    ("repeat(2)", |dataset| dataset.repeat(2)),
    ("take(0)", |dataset| dataset.take(0)),
    ("take(3)", |dataset| dataset.take(3)),
    ("take(all)", |dataset| dataset.take(-1)),
    ("skip(1)", |dataset| dataset.skip(1)),
    ("skip(all)", |dataset| dataset.skip(-1)),
    ("shard", |dataset| dataset.shard(2, 1)),
    ("batch(2)", |dataset| dataset.batch(2, false)),
    ("full batch(2)", |dataset| dataset.batch(2, true)),
    ("unbatch", Dataset::unbatch),
    ("rebatch", |dataset| dataset.rebatch(&[2, 1], false)),
    ("cache", Dataset::cache),
    ("shuffle", |dataset| {
        dataset.shuffle(&ShuffleOptions {
            buffer_size: 2,
            ..ShuffleOptions::default()
        })
    }),
    ("zip with 2", |dataset| {
        let both = Dataset::zip(&[dataset.clone(), numbers(2)], None)?;
        both.map(|pair| pair.item(0), Default::default())
    }),
    ("itself and 4 more", |dataset| {
        Dataset::concatenate(&[dataset.clone(), numbers(4)])
    }),
    ("drawn with 4", |dataset| {
        let options = SampleOptions {
            stop_on_empty: true,
            ..SampleOptions::default()
        };
        Dataset::sample(&[dataset.clone(), numbers(4)], None, &options)
    }),
    ("drawn with an endless one", |dataset| {
        let endless = numbers(4).repeat(-1)?;
        Dataset::sample(&[dataset.clone(), endless], None, &Default::default())
    }),
];

fn beginnings() -> Vec<(&'static str, Dataset)> {
    let filtered = |keeps| numbers(5).filter(move |_| Ok(keeps)).unwrap();
    vec![
        ("no numbers", numbers(0)),
        ("5 numbers", numbers(5)),
        (
            "what a filter keeps of 5, which is nothing",
            filtered(false),
        ),
        ("what a filter keeps of 5, which is all", filtered(true)),
    ]
}

fn check(dataset: &Dataset, case: &str) {
    let iterator = dataset.iterator().unwrap();
    let mut came = 0;
    while came < MANY {
        match iterator.next() {
            Ok(Some(_)) => came += 1,
            Ok(None) => break,
            // Elements that the operation refuses, as rows of different numbers.
            Err(_) => return,
        }
    }
    let is_right = match dataset.cardinality() {
        Cardinality::Exact(count) => came == count as usize,
        Cardinality::Endless => came == MANY,
        Cardinality::EndlessUnlessEmpty | Cardinality::Unknown => true,
    };
    let said = dataset.cardinality();
    assert!(is_right, "{case}: {said:?}, and {came} came");
}

fn extend(dataset: &Dataset, case: &str, depth: usize) {
    check(dataset, case);
    if depth == 0 {
        return;
    }
    for (name, operation) in OPERATIONS {
        // What does not fit is refused: scalars that are cut, elements of different ranks.
        if let Ok(next) = operation(dataset) {
            extend(&next, &format!("{case}, {name}"), depth - 1);
        }
    }
}

#[test]
fn as_many_elements_come_as_a_dataset_says() {
    for (case, dataset) in beginnings() {
        extend(&dataset, case, 3);
    }
}
