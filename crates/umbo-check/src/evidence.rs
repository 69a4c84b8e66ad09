//! The runs of a check, and their common settings.

use std::sync::Arc;

use super::dry_run::{DryRun, Failure, Parts};
use super::options::CheckOptions;
use super::report::{Finding, Subject, Verdict};
use super::variable_snapshot::{self, WrittenVariable};
use super::vectors::{Tolerance, VectorMeasure};
use umbo_base::error::Result;
use umbo_input as input;
use umbo_optim::Gradients;
use umbo_strategy::context::metrics::{Added, What};
use umbo_tensor::DType;
use umbo_tensor::values::Value;
use umbo_tensor::values::variable::Variable;

/// The identity of a metric: the number of the metrics to which it belongs, and its name.
pub(super) type Id = (u64, String);

/// The number of examples that are measured one by one if something differs.
const SAMPLE: usize = 16;

/// The observations. For each run, gradients are as large as the buffers of all replicas.
pub(super) struct Evidence<'a> {
    pub gradients: Option<&'a Arc<Gradients>>,
    pub batch: &'a Value,
    pub rows: usize,
    options: CheckOptions,
    /// The numbers of rows in the usual split.
    pub sizes: Vec<usize>,
    /// The run with the batch as a distributed dataset splits it.
    pub split: Parts,
    /// The same run again, with buffers full of NaN.
    pub split_again: Option<Parts>,
    /// The runs with other splits, if there are several replicas.
    pub others: Option<Others>,
    /// The findings about failed runs.
    pub failures: Vec<Finding>,
    /// The variables that the callback wrote through views, each once.
    pub written: Vec<WrittenVariable>,
    /// For each variable, the mean magnitude of the gradients of single examples, if it was
    /// measured.
    magnitudes: Vec<Option<Vec<f64>>>,
    /// For each metric, the mean magnitude that single examples add, if it was measured.
    metric_magnitudes: Vec<(Id, f64)>,
}

/// Runs with the batch split in other ways.
pub(super) struct Others {
    /// The run with all examples on replica 0.
    pub whole: Parts,
    /// The same run again, with buffers full of NaN.
    pub whole_again: Parts,
    /// The run with the first examples on replica 0, and the others, which are fewer, on replica
    /// 1.
    pub uneven: Parts,
    /// The run with only those first examples, on replica 0: a smaller batch.
    pub first: Parts,
}

impl<'a> Evidence<'a> {
    /// Makes the runs. It fails if the run with the usual split fails. If other runs fail, these
    /// failures are findings.
    pub fn collect(
        dry_run: &DryRun<'a>,
        rows: usize,
        options: &CheckOptions,
    ) -> Result<Evidence<'a>> {
        let replicas = dry_run.strategy.num_replicas();
        let sizes = input::part_sizes(rows, replicas);
        let mut evidence = Evidence {
            gradients: dry_run.gradients,
            batch: dry_run.batch,
            rows,
            options: *options,
            split: Vec::new(),
            split_again: None,
            others: None,
            failures: Vec::new(),
            written: Vec::new(),
            magnitudes: Vec::new(),
            metric_magnitudes: Vec::new(),
            sizes,
        };
        let sizes = evidence.sizes.clone();
        evidence.split = evidence
            .run(dry_run, 0, &sizes, 0.0)
            .map_err(Failure::into_error)?;
        let again = "when it runs again on the same parts, with buffers full of NaN";
        evidence.split_again = evidence.attempt(dry_run, &sizes, f64::NAN, again)?;
        if replicas > 1 && evidence.failures.is_empty() {
            evidence.others = evidence.collect_others(dry_run, replicas)?;
        }
        Ok(evidence)
    }

    /// The runs with other splits, or nothing if the callback has failed in one of them.
    fn collect_others(&mut self, dry_run: &DryRun<'_>, replicas: usize) -> Result<Option<Others>> {
        let rows = self.rows;
        let first = rows - rows / 3;
        let mut sizes = vec![0; replicas];
        sizes[0] = rows;
        let text = format!("with all {rows} examples on replica 0 and empty parts on the others");
        let Some(whole) = self.attempt(dry_run, &sizes, 0.0, &text)? else {
            return Ok(None);
        };
        let text = format!("when it runs again {text} and buffers full of NaN");
        let again = self.attempt(dry_run, &sizes, f64::NAN, &text)?;
        let Some(whole_again) = again else {
            return Ok(None);
        };
        (sizes[0], sizes[1]) = (first, rows - first);
        let text = format!(
            "with {first} and {} examples on replicas 0 and 1",
            rows - first
        );
        let Some(uneven) = self.attempt(dry_run, &sizes, 0.0, &text)? else {
            return Ok(None);
        };
        sizes[1] = 0;
        let text = format!("on a batch of {first} examples, all of them on replica 0");
        let first = self.attempt(dry_run, &sizes, 0.0, &text)?;
        Ok(first.map(|first| Others {
            whole,
            whole_again,
            uneven,
            first,
        }))
    }

    /// Makes a run, and notes the variables that it wrote.
    fn run(
        &mut self,
        dry_run: &DryRun<'_>,
        first: usize,
        sizes: &[usize],
        prefill: f64,
    ) -> Result<Parts, Failure> {
        let outcome = dry_run.run(first, sizes, prefill);
        for written in outcome.written {
            if !self
                .written
                .iter()
                .any(|known| known.variable.is_same(&written.variable))
            {
                self.written.push(written);
            }
        }
        outcome.parts
    }

    /// Makes a run. If the callback fails, that is a finding.
    fn attempt(
        &mut self,
        dry_run: &DryRun<'_>,
        sizes: &[usize],
        prefill: f64,
        split: &str,
    ) -> Result<Option<Parts>> {
        match self.run(dry_run, 0, sizes, prefill) {
            Ok(parts) => Ok(Some(parts)),
            Err(Failure::Library(error)) => Err(error),
            Err(Failure::Callback(error)) => {
                let text = format!("the callback fails {split}: {error}");
                self.failures
                    .push(Finding::new(Subject::Step, Verdict::Failed, text));
                Ok(None)
            }
        }
    }

    /// Measures how large the gradients and metrics of single examples are.
    pub fn measure_examples(&mut self, dry_run: &DryRun<'_>) -> Result<()> {
        let variables = self
            .gradients
            .map_or(0, |gradients| gradients.variables().len());
        let mut magnitudes: Vec<Option<Vec<f64>>> = vec![None; variables];
        let count = self.rows.min(SAMPLE);
        let mut sizes = vec![0; dry_run.strategy.num_replicas()];
        sizes[0] = 1;
        for example in 0..count {
            let parts = match self.run(dry_run, example * self.rows / count, &sizes, 0.0) {
                Ok(parts) => parts,
                // Some callbacks cannot process a single example. Then the magnitude of this
                // example is unknown.
                Err(Failure::Callback(_)) => continue,
                Err(Failure::Library(error)) => return Err(error),
            };
            let Some(part) = parts.into_iter().next() else {
                continue;
            };
            for Added {
                owner,
                name,
                additions,
            } in part.metrics
            {
                let size = match additions {
                    What::Mean(metric) => metric.mean().abs() / count as f64,
                    What::Sum(sum) => sum.abs() / count as f64 * self.rows as f64,
                    What::Cells { .. } => continue,
                };
                let id = (owner, name);
                let known = self
                    .metric_magnitudes
                    .iter_mut()
                    .find(|(known, _)| *known == id);
                match known {
                    Some((_, sum)) if size.is_finite() => *sum += size,
                    None if size.is_finite() => self.metric_magnitudes.push((id, size)),
                    _ => {}
                }
            }
            for (magnitude, gradient) in magnitudes.iter_mut().zip(part.gradients) {
                let Some(mut gradient) = gradient else {
                    continue;
                };
                for element in &mut gradient {
                    let size = element.abs() / count as f64;
                    *element = if size.is_finite() { size } else { 0.0 };
                }
                match magnitude {
                    None => *magnitude = Some(gradient),
                    Some(sum) => {
                        sum.iter_mut()
                            .zip(gradient)
                            .for_each(|(sum, one)| *sum += one);
                    }
                }
            }
        }
        self.magnitudes = magnitudes;
        Ok(())
    }

    /// The variables whose gradients are checked.
    pub fn variables(&self) -> &'a [Variable] {
        self.gradients
            .map_or(&[], |gradients| gradients.variables())
    }

    /// The runs that are compared, the usual one first.
    pub fn runs(&self) -> impl Iterator<Item = &Parts> {
        let others = self.others.iter();
        let others = others.flat_map(|others| [&others.whole, &others.uneven, &others.first]);
        std::iter::once(&self.split).chain(others)
    }

    /// The runs that were made twice, the second time with buffers full of NaN. The run with the
    /// usual split comes last.
    pub fn repeated(&self) -> impl Iterator<Item = (&Parts, &Parts)> {
        let whole = self
            .others
            .iter()
            .map(|others| (&others.whole, &others.whole_again));
        whole.chain(self.split_again.iter().map(|again| (&self.split, again)))
    }

    /// The measure with which gradients of `variable`, which is at position `index`, are compared.
    pub fn measure(&self, index: usize, variable: &Variable) -> VectorMeasure<'_> {
        // Gradients may have fewer bits than their variable.
        let dtype = self
            .gradients
            .map_or(variable.dtype(), |gradients| gradients.dtype(index));
        VectorMeasure {
            elements: variable.shape().elements(),
            tolerance: self.tolerance(dtype),
            examples: self.magnitudes.get(index).and_then(Option::as_deref),
        }
    }

    /// The mean magnitude that single examples add to a metric; if its sum is compared, the
    /// magnitude of the batch's sum. 0 if it was not measured.
    pub fn metric_magnitude(&self, id: &Id) -> f64 {
        let found = self.metric_magnitudes.iter().find(|(known, _)| known == id);
        found.map_or(0.0, |(_, magnitude)| *magnitude)
    }

    /// The tolerance for sums over examples in `dtype`.
    pub fn tolerance(&self, dtype: DType) -> Tolerance {
        let absolute = self.options.absolute_tolerance;
        match self.options.relative_tolerance {
            None => Tolerance {
                absolute,
                ..Tolerance::of_sums(dtype, self.rows)
            },
            Some(relative) => Tolerance {
                relative,
                absolute,
                spacing: 0.0,
            },
        }
    }

    /// Whether all examples of the batch are equal. The results then do not show which examples a
    /// replica has read.
    pub fn has_equal_examples(&self) -> Result<bool> {
        let mut differing = Ok(false);
        self.batch.find_leaf(&mut |leaf| {
            differing = leaf.tensor_of(0).and_then(|tensor| {
                let bytes = variable_snapshot::bytes(tensor)?;
                let row = bytes.len() / self.rows;
                Ok(row > 0 && bytes.chunks_exact(row).any(|other| other != &bytes[..row]))
            });
            (!matches!(differing, Ok(false))).then_some(())
        });
        differing.map(|differing| !differing)
    }
}
