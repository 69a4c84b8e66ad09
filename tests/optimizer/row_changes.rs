//! Rows that come and go between updates, beside a model that knows each row's numbers: what is
//! kept for a row moves with it, and the next update is that of an optimizer that was given the
//! model's numbers.

use std::sync::Arc;

use half::{bf16, f16};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::device::DeviceId;
use umbo_core::error::{Result, Status};
use umbo_core::optimizer::rules::{Slot, VariableProgress, catalogue};
use umbo_core::optimizer::state::rows::KeptRows;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, Settings, VariableGroup,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::variables::{self, Initial, NewVariable};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization, Variable};

use crate::features::AVERAGES;
use crate::setup::*;

/// How many sequences there are.
const SEQUENCES: u64 = 10_000;

/// Numbers that depend on a seed alone.
struct Draws(ChaCha8Rng);

impl Draws {
    fn new(seed: u64) -> Draws {
        Draws(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Less than `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count)
            .map(|_| self.below(2001) as f32 / 1000.0 - 1.0)
            .collect()
    }

    /// Some of the numbers below `rows`, in any order.
    fn some(&mut self, rows: usize) -> Vec<i64> {
        let mut all: Vec<i64> = (0..rows as i64).collect();
        all.shuffle(&mut self.0);
        all.truncate(self.below(rows + 1));
        all
    }
}

/// The numbers of a variable: its weights and slots, row by row, and how far it is.
#[derive(Clone, Debug, PartialEq)]
struct Model {
    /// The shape of a row, and how many elements it has.
    row: Vec<usize>,
    width: usize,
    weights: Vec<u32>,
    /// With their names; none before the first update.
    slots: Vec<(String, Vec<u32>)>,
    progress: VariableProgress,
}

impl Model {
    fn of(optimizer: &Optimizer, variable: &Variable) -> Model {
        let slots = optimizer.slots();
        let state = |slot: &Slot| {
            let state = optimizer.state(variable, &slot.name).ok()?;
            Some((slot.name.to_string(), bits(&read(&state))))
        };
        Model {
            row: variable.shape()[1..].to_vec(),
            width: variable.shape()[1..].iter().product(),
            weights: bits(&floats_of(committed(variable))),
            slots: slots.iter().filter_map(state).collect(),
            progress: optimizer.variable_progress(variable).unwrap(),
        }
    }

    /// How many numbers of a factor of the moments a row has; none if all rows share them.
    fn factor(&self, name: &str) -> Option<usize> {
        match (self.row.len(), name) {
            (1, "v_row") => Some(1),
            (1, _) => None,
            (dimensions, "v_row") => Some(self.row[..dimensions - 1].iter().product()),
            (dimensions, _) => Some(self.width / self.row[dimensions - 2]),
        }
    }

    /// The same with the rows `kept`, and `appended` behind them.
    fn changed(&self, optimizer: &Optimizer, kept: &[i64], appended: &[f32]) -> Model {
        let rows = |from: &[u32], width: usize, appended: Vec<u32>| -> Vec<u32> {
            let kept = kept
                .iter()
                .flat_map(|&row| &from[row as usize * width..][..width]);
            kept.copied().chain(appended).collect()
        };
        let list = optimizer.slots();
        let width = self.width;
        let of_slot = |(name, from): &(String, Vec<u32>)| {
            let slot = list.iter().find(|slot| slot.name == *name).unwrap();
            let initial = |count| vec![(slot.initial as f32).to_bits(); count];
            let changed = match &**name {
                "average" => rows(from, width, bits(appended)),
                // A row is one of the matrix, or is matrices.
                "v_row" | "v_column" => match self.factor(name) {
                    None => from.clone(),
                    Some(each) => rows(from, each, initial(appended.len() / width * each)),
                },
                _ => rows(from, width, initial(appended.len())),
            };
            (name.clone(), changed)
        };
        Model {
            row: self.row.clone(),
            width,
            weights: rows(&self.weights, width, bits(appended)),
            slots: self.slots.iter().map(of_slot).collect(),
            progress: self.progress,
        }
    }
}

/// A table, what trains it, and how.
struct Training {
    strategy: Strategy,
    kind: Kind,
    variable: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    step: u64,
}

fn tensor(values: &[f32], row: &[usize]) -> Tensor {
    tensor_of(DType::Float32, values, row)
}

/// These numbers, in the type, in rows of a shape.
fn tensor_of(dtype: DType, values: &[f32], row: &[usize]) -> Tensor {
    let rows = values.len() / row.iter().product::<usize>();
    let shape = Shape::new(&[&[rows], row].concat()).unwrap();
    let tensor = Tensor::zeros(dtype, shape, DeviceId::HOST).unwrap();
    write_floats(&tensor, values);
    tensor
}

fn write_floats(to: &Tensor, values: &[f32]) {
    let values = values.iter().copied();
    match to.dtype() {
        DType::BFloat16 => write(to, &values.map(bf16::from_f32).collect::<Vec<_>>()),
        DType::Float16 => write(to, &values.map(f16::from_f32).collect::<Vec<_>>()),
        _ => write(to, &values.collect::<Vec<_>>()),
    }
}

fn floats_of(tensor: &Tensor) -> Vec<f32> {
    match tensor.dtype() {
        DType::BFloat16 => read::<bf16>(tensor).iter().map(|it| it.to_f32()).collect(),
        _ => read(tensor),
    }
}

fn floats(bits: &[u32]) -> Vec<f32> {
    bits.iter().map(|&bits| f32::from_bits(bits)).collect()
}

impl Training {
    fn drawn(strategy: &Strategy, draws: &mut Draws) -> Training {
        let rules: Vec<&str> = catalogue::NAMES
            .into_iter()
            .chain(catalogue::other_rules().map(|rule| rule.name))
            .collect();
        let rule = rules[draws.below(rules.len())];
        let row: &[usize] = match self::rule(rule).matrix_rule() {
            None => [
                &[2, 3][..],
                &[3, 1],
                &[2, 1, 3],
                &[1],
                &[2],
                &[3],
                &[4],
                &[5],
            ][draws.below(8)],
            Some(_) => &[[1], [2], [3], [4], [5]][draws.below(5)],
        };
        let rows = draws.below(12);
        let group = VariableGroup {
            learning_rate_factor: 0.5,
            weight_decay: Some(0.125),
            frozen: false,
        };
        let rounds = self::rule(rule).rounds() && draws.below(3) == 0;
        let average = AVERAGES[draws.below(AVERAGES.len())];
        let settings = Settings {
            averaging: average.filter(|_| !rounds),
            stochastic_rounding: rounds.then(|| draws.0.random()),
            ..Settings::default()
        };
        let dtypes = [None, Some(DType::Float16), Some(DType::BFloat16)];
        let kind = Kind {
            rule,
            settings,
            group: (draws.below(3) == 0).then_some(group),
            is_by_rows: !rounds && updates_rows(rule) && draws.below(2) == 0,
            dtype: dtypes[draws.below(dtypes.len())],
            runs: 1 + draws.below(2) as u64,
        };
        let values = kind.weights(draws, rows * row.iter().product::<usize>());
        Training::new(strategy, kind, &tensor_of(kind.of_weights(), &values, row))
    }

    fn new(strategy: &Strategy, kind: Kind, values: &Tensor) -> Training {
        let new = NewVariable {
            name: "table".into(),
            trainable: None,
            synchronization: Synchronization::Auto,
            aggregation: Aggregation::None,
        };
        let variable = variables::create(Some(strategy), new, Initial::Value(values)).unwrap();
        let optimizer = Optimizer::new(strategy.id(), rule(kind.rule), 0.125).unwrap();
        optimizer.configure(kind.settings).unwrap();
        if let Some(group) = kind.group {
            optimizer
                .add_group(std::slice::from_ref(&variable), group)
                .unwrap();
        }
        let gradients = kind.gradients(strategy, &variable).unwrap();
        Training {
            strategy: strategy.clone(),
            kind,
            variable,
            gradients,
            optimizer,
            step: 0,
        }
    }

    /// Another training, of a new variable, that was given what the model has.
    fn twin(&self, model: &Model) -> Training {
        let dtype = self.kind.of_weights();
        let values = tensor_of(dtype, &floats(&model.weights), &model.row);
        let twin = Training::new(&self.strategy, self.kind, &values);
        for (name, state) in &model.slots {
            let values = floats(state);
            let state = match &**name {
                "v_row" | "v_column" => {
                    let there = self.optimizer.state(&self.variable, name).unwrap();
                    Tensor::from_slice(&values, there.shape(), DeviceId::HOST).unwrap()
                }
                _ => tensor(&values, &model.row),
            };
            twin.optimizer
                .set_state(&twin.variable, name, &state)
                .unwrap();
        }
        if model.progress.updates > 0 {
            twin.optimizer
                .set_variable_progress(&twin.variable, model.progress)
                .unwrap();
        }
        twin
    }

    fn rows(&self) -> usize {
        self.variable.shape()[0]
    }

    /// A run of two replicas.
    fn run(&mut self, draws: &mut Draws) {
        self.step += 1;
        let width = self.variable.shape()[1..].iter().product::<usize>();
        for replica in 0..2 {
            if self.kind.is_by_rows {
                let named = draws.some(self.rows());
                let values = draws.floats(named.len() * width);
                self.gradients.try_begin_step(self.step);
                let count = named.len();
                let added = self.gradients.add_rows(replica, self.step, 0, count);
                let added = added.unwrap();
                write(&added.indices, &named);
                write_floats(&added.values, &values);
            } else {
                let values = draws.floats(self.rows() * width);
                self.gradients.try_begin_step(self.step);
                let mode = GradientMode::Overwrite;
                let view = self.gradients.view(replica, self.step, 0, mode).unwrap();
                write_floats(view, &values);
            }
        }
        submit(&self.gradients, self.step, &[3.0, 1.0]);
        self.gradients.commit(self.step);
    }

    /// As many runs as an update takes, each applied.
    fn update(&mut self, draws: &mut Draws) {
        for _ in 0..self.kind.runs {
            self.run(draws);
            apply(&self.optimizer, &self.gradients).unwrap();
        }
    }

    fn change(&mut self, kept: KeptRows<'_>, appended: Option<&Tensor>) {
        let changed = self
            .optimizer
            .change_rows(&self.variable, kept, appended)
            .unwrap();
        let refused = self.kind.gradients(&self.strategy, &self.variable);
        assert!(refusal(refused.map(drop), Status::FailedPrecondition).contains("'table'"));
        // An apply of gradients of the variable before is refused, and changes nothing.
        let model = Model::of(&self.optimizer, &changed);
        self.run(&mut Draws::new(self.step));
        let stale = apply(&self.optimizer, &self.gradients).map(drop);
        if self.kind.runs == 1 {
            let stale = refusal(stale, Status::FailedPrecondition);
            assert!(stale.contains("a change of rows"), "{stale}");
        }
        self.gradients = self.kind.gradients(&self.strategy, &changed).unwrap();
        self.variable = changed;
        assert_eq!(Model::of(&self.optimizer, &self.variable), model);
    }

    /// Changes that are refused, at a time when there is none that is not, if some runs wait.
    fn refuse(&mut self, draws: &mut Draws) {
        let model = Model::of(&self.optimizer, &self.variable);
        let rows = self.rows() as i64;
        let behind = [rows];
        let wrong = |kept, appended| self.optimizer.change_rows(&self.variable, kept, appended);
        let beyond = refusal(
            wrong(KeptRows::Numbered(&behind), None).map(drop),
            Status::OutOfRange,
        );
        assert!(beyond.contains("kept_rows[0]"), "{beyond}");
        let more = wrong(KeptRows::First(rows as usize + 1), None).map(drop);
        assert!(refusal(more, Status::InvalidArgument).contains("kept_count"));
        let wide = tensor(&[0.0; 6], &[6]);
        let wide = wrong(KeptRows::First(0), Some(&wide)).map(drop);
        assert!(refusal(wide, Status::InvalidArgument).contains("appended"));
        if rows > 0 {
            let twice = wrong(KeptRows::Numbered(&[0, 0]), None).map(drop);
            assert!(refusal(twice, Status::InvalidArgument).contains("kept_rows[1]"));
        }
        assert_eq!(Model::of(&self.optimizer, &self.variable), model);
        if self.kind.runs == 1 {
            return;
        }
        // A run that waits for the next one.
        self.run(draws);
        apply(&self.optimizer, &self.gradients).unwrap();
        let waiting = self
            .optimizer
            .change_rows(&self.variable, KeptRows::First(0), None);
        let waiting = refusal(waiting.map(drop), Status::FailedPrecondition);
        assert!(waiting.contains("its gradients hold"), "{waiting}");
        assert_eq!(Model::of(&self.optimizer, &self.variable), model);
        self.run(draws);
        apply(&self.optimizer, &self.gradients).unwrap();
    }
}

/// The settings of a training.
#[derive(Clone, Copy)]
struct Kind {
    rule: &'static str,
    settings: Settings,
    group: Option<VariableGroup>,
    is_by_rows: bool,
    /// The type of gradients.
    dtype: Option<DType>,
    runs: u64,
}

impl Kind {
    fn of_weights(&self) -> DType {
        match self.settings.stochastic_rounding {
            Some(_) => DType::BFloat16,
            None => DType::Float32,
        }
    }

    /// Numbers that are exact as weights.
    fn weights(&self, draws: &mut Draws, count: usize) -> Vec<f32> {
        let values = draws.floats(count);
        floats_of(&tensor_of(self.of_weights(), &values, &[1]))
    }

    fn gradients(&self, strategy: &Strategy, variable: &Variable) -> Result<Arc<Gradients>> {
        let options = GradientsOptions {
            accumulation_steps: self.runs,
            row_sparse: &[self.is_by_rows],
            dtype: self.dtype,
        };
        let variables = vec![variable.clone()];
        Gradients::new(
            strategy.id(),
            &devices(2),
            variables,
            LossReduction::Mean,
            options,
        )
    }
}

fn sequence(strategy: &Strategy, seed: u64) {
    let draws = &mut Draws::new(seed);
    let mut training = Training::drawn(strategy, draws);
    for _ in 0..3 + draws.below(5) {
        let model = Model::of(&training.optimizer, &training.variable);
        match draws.below(5) {
            0 | 1 => {
                let mut twin = training.twin(&model);
                let seed = draws.0.random();
                training.update(&mut Draws::new(seed));
                twin.update(&mut Draws::new(seed));
                assert_eq!(
                    Model::of(&training.optimizer, &training.variable),
                    Model::of(&twin.optimizer, &twin.variable),
                    "{seed}: {}",
                    training.kind.rule
                );
            }
            2 => training.refuse(draws),
            drawn => {
                let mut kept = draws.some(training.rows());
                if drawn == 3 {
                    kept = (0..kept.len() as i64).collect();
                }
                let rows = draws.below(4);
                let appended = training.kind.weights(draws, rows * model.width);
                let added = tensor_of(training.kind.of_weights(), &appended, &model.row);
                let expected = model.changed(&training.optimizer, &kept, &appended);
                let how = match drawn {
                    3 => KeptRows::First(kept.len()),
                    _ => KeptRows::Numbered(&kept),
                };
                training.change(how, Some(&added).filter(|_| rows > 0));
                let found = Model::of(&training.optimizer, &training.variable);
                assert_eq!(found, expected, "{seed}: {}", training.kind.rule);
            }
        }
    }
}

#[test]
fn any_sequence_of_changes_and_updates_is_that_of_a_model() {
    let strategy = Strategy::new(&Options::default()).unwrap();
    (0..SEQUENCES).for_each(|seed| sequence(&strategy, seed));
}
