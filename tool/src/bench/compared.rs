//! Steps with the same work in two trainings, which run alternately.

use std::sync::Arc;
use std::time::Instant;

use umbo_core::error::Result;
use umbo_core::optimizer::{GradientMode, Gradients, Optimizer, apply};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};

use super::memory::quantile;
use super::model::{What, gradients};
use super::rules::rule_of;
use super::work::Work;

/// A training of which each step does some work and an update.
pub struct Training {
    strategy: Strategy,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    /// A training with one variable of `parameters` elements.
    pub fn new(options: &Options, parameters: usize) -> Result<Training> {
        let strategy = Strategy::new(options)?;
        let benchmark = What::plain(strategy.num_replicas(), parameters * size_of::<f32>(), 1);
        let gradients = gradients(&strategy, &benchmark, 1)?;
        let optimizer = Optimizer::new(strategy.id(), rule_of(benchmark.rule), 1e-3)?;
        Ok(Training {
            strategy,
            gradients,
            optimizer,
        })
    }

    /// The number of replicas that share the work.
    pub fn replicas(&self) -> usize {
        self.strategy.num_replicas()
    }

    fn step(&self, work: Work) -> Result<()> {
        let step = |context: &ReplicaContext| {
            // The buffer is set to zero by the thread that would write it.
            self.gradients.view_in(context, 0, GradientMode::Add)?;
            work.of(context.replica(), self.replicas()).execute();
            self.gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        self.strategy.run(&step, None)?;
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    /// The median of `steps` steps, in microseconds. Before them, as many steps run to wake all
    /// threads.
    fn steps(&self, work: Work, steps: usize) -> Result<f64> {
        for _ in 0..steps {
            self.step(work)?;
        }
        let mut times = Vec::with_capacity(steps);
        for _ in 0..steps {
            let start = Instant::now();
            self.step(work)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        Ok(quantile(&times, 0.5))
    }
}

/// Steps with the same work in two trainings.
pub struct Row {
    /// The time that one processor needs for the work, in microseconds.
    pub work_us: f64,
    /// The time of a step in the first training and in the second, in microseconds, for each
    /// round.
    pub first: Vec<f64>,
    pub second: Vec<f64>,
}

impl Row {
    /// How many times as long the first training takes as the second, at the quantile `share` of
    /// the rounds.
    pub fn first_to_second(&self, share: f64) -> f64 {
        ratio(&self.first, &self.second, share)
    }

    /// How many times as long the second training takes as the first.
    pub fn second_to_first(&self, share: f64) -> f64 {
        ratio(&self.second, &self.first, share)
    }
}

fn ratio(numerators: &[f64], denominators: &[f64], share: f64) -> f64 {
    let pairs = numerators.iter().zip(denominators);
    quantile(
        &pairs
            .map(|(numerator, denominator)| numerator / denominator)
            .collect::<Vec<_>>(),
        share,
    )
}

/// A row for each amount of work, in microseconds of one processor, rounded to units of work.
/// Amounts with the same number of units are one row.
pub fn measure(
    first: &Training,
    second: &Training,
    work_us: impl Iterator<Item = f64>,
    rounds: usize,
    steps: usize,
) -> Result<Vec<Row>> {
    let unit_us = Work::unit_us();
    let mut amounts: Vec<u64> = work_us
        .map(|us| (us / unit_us).round().max(1.0) as u64)
        .collect();
    amounts.dedup();
    let new = |units: u64| {
        let work_us = units as f64 * unit_us;
        (
            Work::new(units),
            Row {
                work_us,
                first: Vec::new(),
                second: Vec::new(),
            },
        )
    };
    let mut rows: Vec<(Work, Row)> = amounts.into_iter().map(new).collect();
    for round in 0..rounds {
        for (work, row) in &mut rows {
            // Each of the two is first equally often.
            for at in 0..2 {
                if (round + at) % 2 == 0 {
                    row.first.push(first.steps(*work, steps)?);
                } else {
                    row.second.push(second.steps(*work, steps)?);
                }
            }
        }
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_of_the_rounds() {
        let row = Row {
            work_us: 1.0,
            first: vec![1.0, 4.0, 9.0],
            second: vec![1.0, 2.0, 3.0],
        };
        assert_eq!(
            [0.25, 0.5, 0.75].map(|share| row.first_to_second(share)),
            [1.5, 2.0, 2.5]
        );
        assert_eq!(row.second_to_first(0.5), 0.5);
    }
}
