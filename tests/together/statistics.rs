//! Several variables assigned at once, weighted by examples: W ranks of M replicas come to the bits of one
//! process of W·M replicas, also where replicas and whole ranks do not count.

use umbo::strategy::assign_all::assign_all;
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::values::Value;
use umbo::values::variable::Aggregation;

use super::engine::ranks;
use super::{alone, bytes, named, on_ranks, tensor};

/// The weight of each replica: all, some, one, or none of them count.
const WEIGHTS: [fn(usize) -> f64; 4] = [
    |replica| 1.0 + replica as f64,
    |replica| (replica % 2) as f64 * 0.75,
    |replica| if replica == 1 { 3.0 } else { 0.0 },
    |_| 0.0,
];

fn program(strategy: &Strategy) -> Vec<Vec<u8>> {
    let initial = tensor(&[1.5f32, -2.5, 0.1], &[3]);
    let aggregations = [Aggregation::Mean, Aggregation::Sum, Aggregation::OnlyFirstReplica];
    let targets: Vec<_> = aggregations
        .iter()
        .map(|&aggregation| {
            let new = named(&format!("{aggregation:?}"), aggregation);
            variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
        })
        .collect();
    let mut results = Vec::new();
    for weight in WEIGHTS {
        let callback = |context: &ReplicaContext| {
            let replica = context.replica_in_sync();
            let own = |scale: f32| {
                let value = |place: f32| scale * (0.1 + replica as f32 / 7.0) + place / 3.0;
                tensor(&[value(0.0), value(1.0), value(2.0)], &[3])
            };
            let values = vec![own(1.0), own(1e4), own(-1e-3)];
            assign_all(context, &targets, values, Some(weight(replica)))?;
            Ok(None::<Value>)
        };
        strategy.run(&callback, None).unwrap();
        results.extend(targets.iter().map(|target| bytes(&read(target).unwrap())));
    }
    results
}

#[test]
fn statistics_of_all_ranks_are_those_of_one_process() {
    for (count, replicas) in [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1)] {
        let expected = program(&alone(count * replicas));
        let found = on_ranks(&ranks(count), replicas, |_, made| program(&made.unwrap()));
        for (rank, found) in found.iter().enumerate() {
            assert_eq!(*found, expected, "rank {rank} of {count} with {replicas} replicas");
        }
    }
}
