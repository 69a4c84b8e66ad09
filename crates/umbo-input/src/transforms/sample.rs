//! Elements of several datasets, each from one that is drawn by weights.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::RngCore;
use rand_chacha::ChaCha8Rng;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::passes::IteratorStage;
use crate::passes::given::Given;
use crate::passes::position::{Description, Rounds, StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::properties::{DatasetProperties, common_batch_size, common_batched};
use crate::sources::file_shares::{self, FileShare};
use crate::transforms::concatenate::{common_spec, total};
use crate::transforms::reorder::Reorder;
use crate::transforms::shuffle::Shuffle;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::Value;

/// How elements are drawn from several datasets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleOptions {
    /// The seed of the choices. The same seed makes the same choices on every machine.
    pub seed: u64,
    /// Whether all passes and rounds have the same choices. If not, each has its own, which depend
    /// on the seed, on how many iterators were made of the dataset before, and on the round.
    pub keep_order_each_pass: bool,
    /// Whether a pass ends when a dataset is drawn that has ended. If not, the others continue
    /// until all have ended.
    pub stop_on_empty: bool,
}

impl Dataset {
    /// Elements of the datasets, each of which keeps its own order. For each element a dataset is
    /// drawn, with a probability in proportion to its weight. Without weights, all have the same.
    /// A dataset of weight 0 is never drawn. Elements have the same structure, dtypes and ranks.
    /// Sizes in which they differ are unknown in the element spec.
    ///
    /// A failure of the dataset that was drawn takes the place of its element.
    ///
    /// INVALID_ARGUMENT: no datasets; a number of weights other than that of datasets; a weight
    /// that is negative or not finite; a sum of weights that is 0 or not finite; elements that
    /// differ in structure, dtype or rank.
    pub fn sample(
        datasets: &[Dataset],
        weights: Option<&[f64]>,
        options: &SampleOptions,
    ) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(invalid!("datasets", "none; sample takes one or more"));
        }
        let weights = match weights {
            Some(weights) => checked(weights, datasets.len())?,
            None => vec![1.0; datasets.len()],
        };
        let sample = Sample {
            weights: Arc::new(weights),
            stop_on_empty: options.stop_on_empty,
            orders: Shuffle {
                keep_order: options.keep_order_each_pass,
                ..Shuffle::all(options.seed)
            },
        };
        Dataset::of(Arc::new(sample), datasets)
    }
}

/// The weights of so many datasets.
fn checked(weights: &[f64], datasets: usize) -> Result<Vec<f64>> {
    if weights.len() != datasets {
        return Err(invalid!(
            "weights",
            "{} weights for {datasets} datasets",
            weights.len()
        ));
    }
    let is_wrong = |weight: &f64| !(weight.is_finite() && *weight >= 0.0);
    if let Some(dataset) = weights.iter().position(is_wrong) {
        return Err(invalid!(
            "weights",
            "{} for dataset {dataset}; weights are finite and 0 or more",
            weights[dataset]
        ));
    }
    let sum: f64 = weights.iter().sum();
    if sum == 0.0 || !sum.is_finite() {
        return Err(invalid!(
            "weights",
            "their sum is {sum}; it must be finite and above 0"
        ));
    }
    Ok(weights.to_vec())
}

#[derive(Clone)]
struct Sample {
    weights: Arc<Vec<f64>>,
    stop_on_empty: bool,
    /// The seed, and which passes and rounds have choices of their own.
    orders: Shuffle,
}

impl Sample {
    /// How many elements come from `inputs`.
    fn cardinality(&self, inputs: &[&DatasetProperties]) -> Cardinality {
        let weighted = inputs.iter().zip(&*self.weights);
        let drawn: Vec<&DatasetProperties> = weighted
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(input, _)| *input)
            .collect();
        let all = |is: fn(Cardinality) -> bool| drawn.iter().all(|input| is(input.cardinality));
        match drawn[..] {
            [only] => only.cardinality,
            _ if !self.stop_on_empty => total(&drawn),
            _ if all(|one| one == Cardinality::Endless) => Cardinality::Endless,
            _ if all(Cardinality::is_endless) => Cardinality::EndlessUnlessEmpty,
            // The end depends on which dataset ends first.
            _ => Cardinality::Unknown,
        }
    }

    /// The random numbers of one round. A shuffle of the same seed has others.
    fn random(&self, pass: u64, round: u64) -> ChaCha8Rng {
        let mut random = self.orders.random(pass, round);
        random.set_stream(1);
        random
    }
}

impl Operation for Sample {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(common_spec(inputs)?);
        properties.cardinality = self.cardinality(inputs);
        properties.batches = common_batch_size(inputs);
        properties.batched = common_batched(inputs);
        properties.files = file_shares::joined(inputs, "a sample with what is not made of files");
        if self.stop_on_empty {
            properties.need_all_files("a sample that stops with the first dataset");
        }
        if !self.orders.keep_order {
            properties.order.sample();
        }
        Ok(properties)
    }

    fn signature(&self, inputs: usize) -> Signature {
        Signature::new("sample")
            .with("inputs", inputs)
            .with("weights", &self.weights[..])
            .with("stop_on_empty", self.stop_on_empty)
            .with("keep_order_each_pass", self.orders.keep_order)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let inputs = dataset.start_inputs()?;
        Ok(Box::new(SamplePass {
            sample: self.clone(),
            pass: 0,
            round: 0,
            restored: false,
            random: self.random(0, 0),
            drawn: 0,
            ended: vec![false; inputs.len()],
            stopped: false,
            inputs,
        }))
    }

    fn share(&self, _share: &mut FileShare) -> Result<Option<Arc<dyn Operation>>> {
        Ok(Some(Arc::new(Sample {
            orders: self.orders.anew(),
            ..self.clone()
        })))
    }

    fn describe_seed(&self, to: &mut Description) {
        Reorder::describe_seed(&self.orders, to);
    }
}

struct SamplePass {
    sample: Sample,
    /// How many iterators were made before the one of this pass.
    pass: u64,
    round: u64,
    /// Whether the seed and the two numbers were restored from the position of another pass.
    restored: bool,
    random: ChaCha8Rng,
    /// How often a dataset was drawn in this round.
    drawn: u64,
    /// Whether each dataset has ended in this round.
    ended: Vec<bool>,
    /// Whether the round has ended because one of them has.
    stopped: bool,
    inputs: Vec<Box<dyn IteratorStage<Value>>>,
}

impl SamplePass {
    /// The dataset that is drawn next, if one is left. It depends on nothing but the number of
    /// draws and on which datasets have ended.
    fn draw(&mut self) -> Option<usize> {
        let weights = self.sample.weights.iter().zip(&self.ended);
        let left = weights
            .enumerate()
            .filter(|(_, (weight, ended))| **weight > 0.0 && !**ended)
            .map(|(dataset, (weight, _))| (dataset, *weight));
        let sum: f64 = left.clone().map(|(_, weight)| weight).sum();
        // Each draw takes two words.
        let word = 2 * u128::from(self.drawn);
        if self.random.get_word_pos() != word {
            self.random.set_word_pos(word);
        }
        let mut point = unit(self.random.next_u64()) * sum;
        let mut last = None;
        for (dataset, weight) in left {
            if point < weight {
                return Some(dataset);
            }
            point -= weight;
            // Rounding may lead behind the last weight.
            last = Some(dataset);
        }
        last
    }

    /// Is at the beginning of a round with these numbers. The inputs are not.
    fn begin(&mut self, pass: u64, round: u64) {
        (self.pass, self.round) = (pass, round);
        self.random = self.sample.random(pass, round);
        self.drawn = 0;
        self.ended.fill(false);
        self.stopped = false;
    }
}

/// A number in [0, 1), of as many bits as a float64 has.
fn unit(number: u64) -> f64 {
    (number >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 / (1_u64 << f64::MANTISSA_DIGITS) as f64
}

impl IteratorStage<Value> for SamplePass {
    fn next(&mut self) -> Result<Option<Value>> {
        while !self.stopped {
            let Some(dataset) = self.draw() else {
                return Ok(None);
            };
            let before = self.drawn;
            // If the dataset panics, its element is passed over. A restored number may be any.
            self.drawn = before.saturating_add(1);
            let next = self.inputs[dataset].next();
            if next.as_ref().is_err_and(Error::comes_again) {
                self.drawn = before;
            }
            if let Some(element) = next? {
                return Ok(Some(element));
            }
            self.ended[dataset] = true;
            self.stopped = self.sample.stop_on_empty;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<()> {
        // A restored number may be any.
        self.begin(self.pass, self.round.saturating_add(1));
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn save(&self, to: &mut StateWriter) {
        // The seed is saved too, as that of a shuffle is.
        let seed = self.sample.orders.seed;
        for number in [seed, self.pass, self.round, self.drawn] {
            to.push(number);
        }
        to.push_flag(self.stopped);
        self.ended.iter().for_each(|&ended| to.push_flag(ended));
        self.inputs.iter().for_each(|input| input.save(to));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.sample.orders.seed = from.number()?;
        let pass = from.number()?;
        let round = from.number()?;
        self.begin(pass, round);
        self.restored = true;
        self.drawn = from.number()?;
        self.stopped = from.flag()?;
        for ended in &mut self.ended {
            *ended = from.flag()?;
        }
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.restore(from))
    }

    fn rounds(&mut self, to: &mut Rounds) {
        // In all rounds of a sample that keeps its order, the choices are the same.
        if !self.sample.orders.keep_order {
            to.push_shuffle(self.round);
        }
        self.inputs.iter_mut().for_each(|input| input.rounds(to));
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        if !self.sample.orders.keep_order {
            self.round = to.number()?;
        }
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.go_back(to))
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        self.inputs.iter_mut().for_each(|input| visit(&mut **input));
    }

    fn announce(&mut self, given: &Given) {
        let passes = &self.sample.orders.passes;
        if self.restored || self.drawn > 0 {
            // As with a shuffle, the next iterator has the choices that it would have had where the
            // position was saved.
            passes.fetch_max(self.pass.saturating_add(1), Ordering::Relaxed);
        } else {
            let pass = passes.fetch_add(1, Ordering::Relaxed);
            self.begin(pass, self.round);
        }
        self.inputs
            .iter_mut()
            .for_each(|input| input.announce(given));
    }
}
