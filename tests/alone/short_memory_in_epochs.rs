//! Epochs while memory is short: no element is used up by a step that failed, each comes again. The steps and the
//! weights are those of a training with all the memory there is, to the bit.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo::device::DeviceId;
use umbo::error::{Result, Status};
use umbo::input::{Dataset, DistributeOptions, MapOptions, PassIterator, distribute_dataset};
use umbo::optimizer::adam::Adam;
use umbo::optimizer::{GradientMode, Gradients, LossReduction, Optimizer};
use umbo::strategy::cancellation::Cancellation;
use umbo::strategy::run::Limits;
use umbo::strategy::variables::{self, Initial, read};
use umbo::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo::tensor::{Shape, Tensor};
use umbo::training::Epoch;
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Variable};

use crate::allocator::{LARGE, serve};

/// The numbers of a row, of the weights and of a gradient, each of which may be refused.
const WIDTH: usize = LARGE / 4;

/// How many elements the dataset has.
const ROWS: usize = 23;

#[derive(Clone, Copy, Debug)]
struct Plan {
    replicas: usize,
    read_ahead: i64,
    accumulation_steps: u64,
    /// What the steps are limited by, if at all.
    limited: Option<Limit>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// A deadline that is far away.
    Far,
    /// A token that a callback cancels now and then.
    Token,
}

fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for (replicas, read_ahead) in [(1, 0), (2, 2), (3, 0), (3, 3)] {
        for accumulation_steps in [1, 3] {
            for limited in [None, Some(Limit::Far), Some(Limit::Token)] {
                for seed in 0..3 {
                    plans.push(Plan { replicas, read_ahead, accumulation_steps, limited, seed });
                }
            }
        }
    }
    plans
}

/// Batches of two rows, each row in memory of its own.
fn data() -> Dataset {
    let numbers: Vec<i64> = (0..ROWS * WIDTH).map(|at| (at / WIDTH) as i64).collect();
    let shape = Shape::new(&[ROWS, WIDTH]).unwrap();
    let rows = Tensor::from_slice(&numbers, shape, DeviceId::HOST).unwrap();
    let copied = |row: &Value| Ok(Value::Tensor(row.tensor_of(0)?.copied_to(DeviceId::HOST)?));
    let rows = Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap();
    rows.map(copied, MapOptions::default()).unwrap().batch(2, false).unwrap()
}

fn tensor(numbers: &[f32]) -> Result<Tensor> {
    Tensor::from_slice(numbers, Shape::new(&[numbers.len()])?, DeviceId::HOST)
}

/// The numbers of the rows that a replica got.
fn rows_of(context: &ReplicaContext) -> Result<Vec<i64>> {
    let all = context.arguments()?.unwrap().tensor_of(0)?.to_vec::<i64>()?;
    Ok(all.iter().copied().step_by(WIDTH).collect())
}

/// What the replicas got in a step: the numbers of their rows.
type Step = Vec<(usize, Vec<i64>)>;

struct Program {
    strategy: Strategy,
    weights: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    /// The rows that each replica got in the step that may yet fail.
    pending: Arc<Mutex<Step>>,
    /// Those of the steps that took effect.
    counted: Vec<Step>,
}

impl Program {
    fn new(plan: &Plan) -> Program {
        let options =
            Options { cpu_replicas: plan.replicas, bind_threads: false, ..Options::default() };
        let strategy = Strategy::new(&options).unwrap();
        let new = crate::fresh::new_variable("weights", Aggregation::Mean);
        let initial = tensor(&[1.0; WIDTH]).unwrap();
        let weights = variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap();
        let gradients = Gradients::accumulating(
            strategy.id(),
            strategy.replica_devices(),
            vec![weights.clone()],
            LossReduction::GlobalMean,
            plan.accumulation_steps,
        );
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.125).unwrap();
        Program {
            strategy,
            weights,
            gradients: gradients.unwrap(),
            optimizer,
            pending: Arc::default(),
            counted: Vec::new(),
        }
    }

    /// What a replica does with its rows: their numbers are its gradient.
    fn contribute(
        gradients: &Arc<Gradients>,
        context: &ReplicaContext,
        rows: &[i64],
    ) -> Result<()> {
        let own = tensor(&[rows.iter().sum::<i64>() as f32; WIDTH])?;
        let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
        // SAFETY: the replica's own gradient, while its callback runs.
        unsafe { view.assume_exclusive() }.copy_from(&own)?;
        gradients.submit_in(context, None)
    }

    fn epoch(
        &mut self,
        iterator: &PassIterator,
        limits: Limits,
        extra: impl Fn(&ReplicaContext) + Send + Sync + 'static,
    ) -> Result<()> {
        let (gradients, pending) = (Arc::clone(&self.gradients), Arc::clone(&self.pending));
        pending.lock().unwrap().clear();
        let step: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
            let rows = rows_of(context)?;
            pending.lock().unwrap().push((context.replica(), rows.clone()));
            Program::contribute(&gradients, context, &rows)?;
            extra(context);
            Ok(None)
        });
        let epoch = Epoch {
            strategy: &self.strategy,
            iterator,
            update: Some((Arc::clone(&self.optimizer), Arc::clone(&self.gradients))),
            metrics: None,
            limits,
            max_steps: None,
            flush: true,
            keep_metrics: false,
            reset: false,
        };
        let (pending, counted) = (&self.pending, &mut self.counted);
        let report = epoch.run(step, None, &mut |_, _| {
            let mut rows = std::mem::take(&mut *pending.lock().unwrap());
            rows.sort();
            counted.push(rows);
            Ok(())
        })?;
        assert!(report.pass_ended);
        Ok(())
    }

    fn weights(&self) -> Vec<f32> {
        read(&self.weights).unwrap().to_vec().unwrap()
    }
}

/// The steps and the weights with all the memory there is.
fn undisturbed(plan: &Plan) -> (Vec<Step>, Vec<f32>) {
    let mut program = Program::new(plan);
    let options = DistributeOptions::default();
    let distributed = distribute_dataset(&program.strategy, &data(), &options).unwrap();
    program.epoch(&distributed.iterator().unwrap(), Limits::default(), |_| ()).unwrap();
    let weights = program.weights();
    (program.counted, weights)
}

/// Trains one pass with memory that comes and goes. How often there was none, and in how many runs.
fn train_with_little(plan: &Plan) -> (usize, usize) {
    let mut program = Program::new(plan);
    let data = data();
    let options =
        DistributeOptions { read_ahead: Some(plan.read_ahead), ..DistributeOptions::default() };
    let distributed = distribute_dataset(&program.strategy, &data, &options).unwrap();
    let iterator = distributed.iterator().unwrap();
    let random = Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(plan.seed)));
    let (mut failures, mut runs) = (0, 0);
    loop {
        let token = Cancellation::new();
        let limits = match plan.limited {
            None => Limits::default(),
            Some(Limit::Far) => {
                let deadline = Some(Instant::now() + Duration::from_secs(3600));
                Limits { deadline, ..Limits::default() }
            }
            Some(Limit::Token) => Limits { cancellation: Some(token.clone()), ..Limits::default() },
        };
        let (of_callbacks, cancels) = (Arc::clone(&random), plan.limited == Some(Limit::Token));
        serve(random.lock().unwrap().random_range(0..12));
        let ended = program.epoch(&iterator, limits, move |_| {
            let mut random = of_callbacks.lock().unwrap();
            match random.random_range(0..8) {
                0..3 => serve(random.random_range(0..12)),
                3 => serve(usize::MAX),
                4 if cancels => token.cancel(),
                _ => {}
            }
        });
        serve(usize::MAX);
        let Err(error) = ended else { break };
        // A cancelled run may have returned before its last callback.
        program.strategy.synchronize().unwrap();
        failures += 1;
        let status = error.status();
        let is_expected = status == Status::ResourceExhausted
            || (plan.limited == Some(Limit::Token) && status == Status::Cancelled);
        assert!(is_expected, "{plan:?}: {error}");
        let text = error.to_string();
        let in_run = text.contains("of the epoch failed");
        assert_eq!(in_run, text.contains("the next epoch begins with its batch"), "{text}");
        runs += usize::from(in_run);
        assert!(failures < 500, "{plan:?}: still {error}");
    }
    let (steps, weights) = undisturbed(plan);
    assert_eq!(program.counted, steps, "{plan:?}");
    assert_eq!(program.weights(), weights, "{plan:?}");
    (failures, runs)
}

#[test]
fn epochs_go_on_when_there_is_memory_again() {
    let true = crate::is_alone(epochs_go_on_when_there_is_memory_again) else { return };
    let (mut failures, mut runs) = (0, 0);
    for plan in plans() {
        let (of_plan, of_runs) = train_with_little(&plan);
        failures += of_plan;
        runs += of_runs;
    }
    println!("{failures} failures, {runs} of them in runs");
    assert!(failures > runs + 50 && runs > 100);
}
