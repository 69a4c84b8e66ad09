//! Rows that come and go: with state that ranks divide, and with whole state of tables, changes
//! come to the bits of one process; ranks that want different rows are told which, and change
//! nothing.

use umbo_core::error::{Error, Status};
use umbo_core::optimizer::rules::catalogue::updates_rows;
use umbo_core::optimizer::state::rows::KeptRows;
use umbo_core::optimizer::{
    AverageKind, Averaging, GradientsOptions, Optimizer, Settings, UpdateRule, apply,
};
use umbo_core::strategy::{ReplicaContext, Strategy};

use super::dividing::{contribute, gradients, known, make, numbers, rules};
use super::engine::ranks;
use super::{alone, on_ranks, tensor};

/// Of less than a tile, of some tiles with a rest, empty, and one that is updated by rows.
const SHAPES: [&[usize]; 5] = [&[5], &[3, 700], &[0, 4], &[9, 2048], &[6, 3]];

const TABLE: usize = SHAPES.len() - 1;

/// The rows that stay, none for the first ones, and how many there are behind them, in turn. Of
/// each table of three or more rows at least two stay.
const CHANGES: [(&[i64], usize, usize); 4] = [
    (&[2, 0], 0, 3),
    (&[], 3, 4),
    (&[1, 4, 3], 0, 0),
    (&[], 2, 1),
];

fn train(strategy: &Strategy, rule: Box<dyn UpdateRule>) -> Vec<Vec<u8>> {
    let mut variables = make(strategy, &SHAPES);
    let row_sparse = SHAPES.map(|shape| shape == SHAPES[TABLE] && updates_rows(rule.name()));
    let options = GradientsOptions {
        row_sparse: &row_sparse,
        ..GradientsOptions::default()
    };
    let averaging = Averaging {
        kind: AverageKind::Mean,
        start: 1,
        interval: 1,
    };
    let settings = Settings {
        averaging: Some(averaging),
        ..Settings::default()
    };
    let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
    optimizer.configure(settings).unwrap();
    let mut all = Vec::new();
    for (step, (kept, first, appended)) in CHANGES.into_iter().enumerate() {
        let gradients = gradients(strategy, &variables, options);
        let callback = |context: &ReplicaContext| {
            contribute(context, &gradients, step)?;
            apply(&optimizer, &gradients)?;
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
        for (index, variable) in variables.iter_mut().enumerate() {
            let mut shape = variable.shape().to_vec();
            let rows = shape[0];
            shape[0] = appended;
            let elements = shape.iter().product();
            let added = tensor(&numbers(step + 7 * index, elements), &shape);
            let kept = kept.iter().copied().filter(|&row| row < rows as i64);
            let kept: Vec<i64> = kept.collect();
            let how = match kept.len() {
                0 => KeptRows::First(first.min(rows)),
                _ => KeptRows::Numbered(&kept),
            };
            let changed = optimizer.change_rows(variable, how, Some(&added));
            *variable = changed.unwrap();
        }
        all.extend(known(&optimizer, &variables));
    }
    all
}

#[test]
fn changed_rows_come_to_the_bits_of_one_process() {
    let splits = [(2, 1), (3, 1), (2, 2), (4, 1)];
    for (number, make) in rules().enumerate() {
        let (size, devices) = splits[number % splits.len()];
        let expected = train(&alone(size * devices), make());
        let ranks = ranks(size);
        let came = on_ranks(&ranks, devices, |_, strategy| {
            train(&strategy.unwrap(), make())
        });
        for came in came {
            assert!(came == expected, "{:?} on {size}×{devices}", make());
        }
    }
}

#[test]
fn ranks_that_want_different_rows_change_nothing() {
    let ranks = ranks(2);
    let messages = on_ranks(&ranks, 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let variables = make(&strategy, &[&[4, 600]]);
        let rule = rules().nth(1).unwrap()();
        let optimizer = Optimizer::new(strategy.id(), rule, 0.05).unwrap();
        let gradients = gradients(&strategy, &variables, GradientsOptions::default());
        let step = |number| {
            let callback = |context: &ReplicaContext| {
                contribute(context, &gradients, number)?;
                apply(&optimizer, &gradients)?;
                Ok(None)
            };
            strategy.run(&callback, None).unwrap();
        };
        step(0);
        let before = known(&optimizer, &variables);
        let change = |kept: &[i64]| {
            let changed = optimizer.change_rows(&variables[0], KeptRows::Numbered(kept), None);
            let error: Error = changed.map(drop).unwrap_err();
            assert!(known(&optimizer, &variables) == before);
            (error.status(), error.to_string())
        };
        let differing = change(&[0, 1 + rank as i64]);
        let failing = change(if rank == 0 { &[0, 1] } else { &[0, 4] });
        step(1);
        (differing, failing)
    });
    for ((_, differing), (status, failing)) in messages {
        assert!(differing.contains("kept_rows[1]"), "{differing}");
        assert_eq!(status, Status::OutOfRange);
        assert!(failing.contains("kept_rows[1]: 4"), "{failing}");
    }
}
