//! A step that takes no effect uses up no element. Trainings are disturbed again and again, on one
//! rank or on all, and continue: with the next epoch, from a saved position, or from a checkpoint
//! on other ranks and devices. They train on the elements of an undisturbed one, each once and in
//! its order, to the same bits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::checkpoint::{Checkpoint, SavedIterator};
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, MapOptions, PassIterator, ShuffleOptions,
    distribute_dataset,
};
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer};
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::training::Epoch;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::engine::job;
use super::on_gpus::tried;
use super::pairwise::pairwise;
use super::passed_over::epoch_over;
use super::reproducible::chosen;
use super::saving::Folder;
use super::{bytes, on_ranks_of, tensor, variable};

/// Replicas of all ranks together, so that the bits are the same however they are spread.
const IN_SYNC: usize = 6;
const ROWS: i32 = 50;
/// Rows of a batch: the last one has a single row, so that most replicas have none of it.
const BATCH: i64 = 7;
const STEPS: u64 = 8;
const PASSES: u64 = 2;

/// What disturbs the training.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Callback,
    Token,
    Deadline,
    Progress,
    /// The input, for which there is none.
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pipeline {
    Plain,
    Shuffled,
    Parallel,
    MadeAhead,
    /// All of these, and batches that are cut anew.
    All,
}

/// What follows a failure.
#[derive(Clone, Copy, Debug)]
enum Then {
    AnotherEpoch,
    /// Another iterator, at the place of the first.
    Position,
    /// The first time a training on so many ranks with so many devices each, from a checkpoint.
    Elsewhere(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    by: By,
    accumulation: u64,
    /// Ranks, and how many devices each has.
    split: (usize, usize),
    pipeline: Pipeline,
    read_ahead: i64,
    then: Then,
    seed: u64,
}

const BY: [By; 5] = [
    By::Callback,
    By::Token,
    By::Deadline,
    By::Progress,
    By::Memory,
];
const ACCUMULATION: [u64; 3] = [1, 2, 3];
const SPLITS: [(usize, usize); 6] = [(1, 1), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)];
const PIPELINES: [Pipeline; 5] = [
    Pipeline::Plain,
    Pipeline::Shuffled,
    Pipeline::Parallel,
    Pipeline::MadeAhead,
    Pipeline::All,
];
const READ_AHEAD: [i64; 2] = [0, 2];
const THEN: [Then; 5] = [
    Then::AnotherEpoch,
    Then::Position,
    Then::Elsewhere(1, 2),
    Then::Elsewhere(2, 3),
    Then::Elsewhere(3, 1),
];

fn plans() -> Vec<Plan> {
    let counts = [
        BY.len(),
        ACCUMULATION.len(),
        SPLITS.len(),
        PIPELINES.len(),
        READ_AHEAD.len(),
        THEN.len(),
    ];
    let plan = |(seed, row): (usize, Vec<usize>)| {
        let split = SPLITS[row[2]];
        let then = THEN[row[5]];
        // Several ranks with a chosen number of replicas do not accumulate.
        let is_alone = split.0 == 1 && !matches!(then, Then::Elsewhere(2.., _));
        Plan {
            by: BY[row[0]],
            accumulation: if is_alone { ACCUMULATION[row[1]] } else { 1 },
            split,
            pipeline: PIPELINES[row[3]],
            read_ahead: READ_AHEAD[row[4]],
            then,
            seed: seed as u64,
        }
    };
    pairwise(&counts)
        .into_iter()
        .enumerate()
        .map(plan)
        .collect()
}

/// Where a training is disturbed, the same on all ranks.
struct Disturbance {
    rank: usize,
    replica: usize,
    /// Before which steps, by how many have counted; twice before the first of them.
    steps: Vec<u64>,
    /// For which rows there is no memory, once.
    rows: Vec<i32>,
}

impl Disturbance {
    fn new(plan: &Plan, ranks: usize) -> Disturbance {
        let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
        let first = random.random_range(1..STEPS - 1);
        let steps = vec![first, first, first + 2, STEPS + first];
        Disturbance {
            rank: random.random_range(0..ranks),
            replica: random.random_range(0..IN_SYNC / ranks),
            steps: steps.into_iter().rev().collect(),
            rows: vec![0, random.random_range(1..ROWS - 1), ROWS - 1],
        }
    }
}

struct Training {
    strategy: Strategy,
    weights: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    distributed: DistributedDataset,
    iterator: Arc<PassIterator>,
}

impl Training {
    /// There is no memory for the rows in `short`, once each.
    fn new(plan: &Plan, strategy: Strategy, short: Vec<i32>) -> Training {
        let initial = tensor(&[0.5f32, -0.25, 2.0], &[3]);
        let weights = variable(&strategy, "w", Aggregation::None, &initial);
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            vec![weights.clone()],
            LossReduction::Sum,
            umbo_core::optimizer::GradientsOptions {
                accumulation_steps: plan.accumulation,
                ..Default::default()
            },
        );
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
        let options = DistributeOptions {
            read_ahead: Some(plan.read_ahead),
            ..DistributeOptions::default()
        };
        let data = data(plan.pipeline, short);
        let distributed = distribute_dataset(&strategy, &data, &options).unwrap();
        let iterator = Arc::new(distributed.iterator().unwrap());
        let gradients = gradients.unwrap();
        Training {
            strategy,
            weights,
            gradients,
            optimizer,
            distributed,
            iterator,
        }
    }

    fn checkpoint(&self) -> Arc<Checkpoint> {
        let checkpoint = Checkpoint::new(&self.strategy);
        checkpoint
            .add("pass", Arc::new(SavedIterator(Arc::clone(&self.iterator))))
            .unwrap();
        checkpoint.add("w", Arc::new(self.weights.clone())).unwrap();
        checkpoint
            .add("optimizer", Arc::clone(&self.optimizer) as _)
            .unwrap();
        checkpoint
            .add("gradients", Arc::clone(&self.gradients) as _)
            .unwrap();
        checkpoint
    }

    /// What is left of a pass. Each replica calls `extra` once it has contributed the rows that
    /// `got` gets, and `counted` is called behind each step.
    fn epoch(
        &self,
        limits: Limits,
        got: &Arc<Mutex<Vec<i32>>>,
        extra: impl Fn(&ReplicaContext) -> Result<()> + Send + Sync + 'static,
        mut counted: impl FnMut(Vec<i32>) -> Result<()>,
    ) -> Result<()> {
        let gradients = Arc::clone(&self.gradients);
        let of_step = Arc::clone(got);
        got.lock().unwrap().clear();
        let step: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
            let rows = context
                .arguments()?
                .unwrap()
                .tensor_of(0)?
                .to_vec::<i32>()?;
            of_step.lock().unwrap().extend(&rows);
            // What is drawn from the step's number is drawn again with its element.
            let number = context.step_number() as f32;
            let sum = rows.iter().map(|&row| row as f32 / 8.0).sum::<f32>();
            let sums = tensor(&[sum, sum * number, rows.len() as f32], &[3]);
            super::copy_into(
                gradients.view_in(context, 0, GradientMode::Overwrite)?,
                &sums,
            );
            gradients.submit_in(context, None)?;
            extra(context)?;
            Ok(None)
        });
        let update = Some((Arc::clone(&self.optimizer), Arc::clone(&self.gradients)));
        let epoch = Epoch {
            update,
            limits,
            reset: true,
            evaluates: false,
            ..epoch_over(&self.strategy, &self.iterator)
        };
        let report = epoch.run(&OwnedCallback::of(step), &|_, _, _| Ok(()), &mut |_, _| {
            counted(std::mem::take(&mut *got.lock().unwrap()))
        })?;
        assert!(report.pass_ended);
        Ok(())
    }
}

/// Batches of the rows 0, 1, ..., one of which there is no memory for if it is in `short`, once.
fn data(pipeline: Pipeline, short: Vec<i32>) -> Dataset {
    let numbers: Vec<i32> = (0..ROWS).collect();
    let count = numbers.len();
    let rows = Dataset::from_tensor_slices(&Value::Tensor(tensor(&numbers, &[count]))).unwrap();
    let shuffle = ShuffleOptions {
        buffer_size: 20,
        seed: 9,
        ..ShuffleOptions::default()
    };
    let rows = match pipeline {
        Pipeline::Shuffled | Pipeline::All => rows.shuffle(&shuffle).unwrap(),
        _ => rows,
    };
    let short = Mutex::new(short);
    let check = move |row: &Value| {
        let number = row.tensor_of(0)?.to_vec::<i32>()?[0];
        let mut short = short.lock().unwrap();
        match short.iter().position(|&row| row == number) {
            Some(at) => {
                short.remove(at);
                Err(Error::no_memory_for("a row"))
            }
            None => Ok(row.clone()),
        }
    };
    let parallel_calls = match pipeline {
        Pipeline::Parallel | Pipeline::All => 3,
        _ => 0,
    };
    let rows = rows
        .map(
            check,
            MapOptions {
                parallel_calls,
                ..MapOptions::default()
            },
        )
        .unwrap();
    match pipeline {
        Pipeline::MadeAhead => rows
            .prefetch(5)
            .unwrap()
            .batch(BATCH, false)
            .unwrap()
            .prefetch(2)
            .unwrap(),
        Pipeline::All => {
            let batches = rows.batch(4, false).unwrap();
            batches
                .rebatch(&[BATCH], false)
                .unwrap()
                .prefetch(2)
                .unwrap()
        }
        _ => rows.batch(BATCH, false).unwrap(),
    }
}

/// How far a training has come on one rank.
#[derive(Clone, Default)]
struct Done {
    /// The rows of this rank, of each step that counted.
    steps: Vec<Vec<i32>>,
    passes: u64,
    failures: usize,
    weights: Vec<u8>,
}

/// Trains on one rank to the end, or until a checkpoint was saved in `folder`, which a training
/// elsewhere begins with.
fn train(
    plan: &Plan,
    rank: usize,
    strategy: Strategy,
    disturbance: &mut Disturbance,
    before: Option<(u64, u64)>,
    folder: &Folder,
) -> Done {
    let is_it = rank == disturbance.rank;
    let (mut passes, counted_before) = before.unwrap_or_default();
    let short = match is_it && plan.by == By::Memory {
        true => disturbance.rows.clone(),
        false => Vec::new(),
    };
    let size = strategy.ranks().size();
    let mut training = Training::new(plan, strategy, short);
    if before.is_some() {
        training.checkpoint().restore(&folder.file()).unwrap();
    }
    let counted = Arc::new(AtomicU64::new(counted_before));
    let left = Arc::new(Mutex::new(disturbance.steps.clone()));
    let got: Arc<Mutex<Vec<i32>>> = Arc::default();
    let mut done = Done::default();
    let mut patience = Duration::from_millis(20);
    while passes < PASSES {
        let token = Cancellation::new();
        let is_disturbed = is_it && !left.lock().unwrap().is_empty();
        let limits = match plan.by {
            By::Token if is_it => Limits {
                cancellation: Some(token.clone()),
                ..Limits::default()
            },
            By::Deadline if is_disturbed => Limits {
                deadline: Some(Instant::now() + patience),
                ..Limits::default()
            },
            _ => Limits::default(),
        };
        let of_callback = Arc::clone(&left);
        let so_far = Arc::clone(&counted);
        let by = plan.by;
        let replica = disturbance.replica;
        let disturb = move |context: &ReplicaContext| {
            let is_in_step = matches!(by, By::Callback | By::Token | By::Deadline);
            if !(is_in_step && is_it && context.replica() % IN_SYNC == replica) {
                return Ok(());
            }
            let mut left = of_callback.lock().unwrap();
            let so_far = so_far.load(Ordering::SeqCst);
            if left.last().is_none_or(|&planned| so_far < planned) {
                return Ok(());
            }
            left.pop();
            match by {
                By::Callback => return Err(Error::NotFound("as planned".into())),
                By::Token => token.cancel(),
                _ => {}
            }
            while !context.is_cancelled() {
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(())
        };
        let ended = training.epoch(limits, &got, disturb, |rows| {
            done.steps.push(rows);
            let steps = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let mut left = left.lock().unwrap();
            // On all ranks.
            if plan.by == By::Progress && left.last().is_some_and(|&planned| steps >= planned) {
                left.pop();
                return Err(Error::NotFound("as planned".into()));
            }
            Ok(())
        });
        training.strategy.synchronize().unwrap();
        let Err(error) = ended else {
            passes += 1;
            continue;
        };
        check(plan, &error);
        done.failures += 1;
        patience *= 2;
        match plan.then {
            Then::AnotherEpoch => {}
            Then::Position => {
                let place = training.iterator.save_position().unwrap();
                let other = training.distributed.iterator().unwrap();
                other.restore_position(&place).unwrap();
                training.iterator = Arc::new(other);
            }
            Then::Elsewhere(..)
                if size > 1 && training.gradients.accumulated_runs().unwrap() > 0 =>
            {
                // Of several ranks none saves what is accumulated.
                let error = training.checkpoint().save(&folder.file()).unwrap_err();
                assert_eq!(error.status(), Status::FailedPrecondition, "{error}");
            }
            Then::Elsewhere(..) if before.is_none() => {
                training.checkpoint().save(&folder.file()).unwrap();
                break;
            }
            Then::Elsewhere(..) => {}
        }
    }
    done.weights = bytes(&read(&training.weights).unwrap());
    disturbance.steps = std::mem::take(&mut *left.lock().unwrap());
    Done { passes, ..done }
}

fn check(plan: &Plan, error: &Error) {
    let expected = match plan.by {
        By::Callback | By::Progress => Status::NotFound,
        By::Token => Status::Cancelled,
        By::Deadline => Status::DeadlineExceeded,
        By::Memory => Status::ResourceExhausted,
    };
    assert_eq!(error.status(), expected, "{plan:?}: {error}");
    let text = error.to_string();
    let begins = text.lines().next().unwrap();
    let in_run = begins.contains("of the epoch failed");
    assert_eq!(
        begins.contains("the next epoch begins with its batch"),
        in_run,
        "{text}"
    );
}

/// The rows of each step, of all ranks together, and the weights, which are the same on all.
fn joined(of_ranks: &[Done], case: &dyn std::fmt::Debug) -> (Vec<Vec<i32>>, Vec<u8>) {
    let first = &of_ranks[0];
    for of_rank in of_ranks {
        let ends = (of_rank.steps.len(), of_rank.passes, &of_rank.weights);
        assert_eq!(
            ends,
            (first.steps.len(), first.passes, &first.weights),
            "{case:?}"
        );
    }
    let step = |step: usize| {
        let mut rows: Vec<i32> = of_ranks
            .iter()
            .flat_map(|of_rank| of_rank.steps[step].clone())
            .collect();
        rows.sort_unstable();
        rows
    };
    (
        (0..first.steps.len()).map(step).collect(),
        first.weights.clone(),
    )
}

/// What one process comes to that nothing disturbs.
fn undisturbed(plan: &Plan) -> (Vec<Vec<i32>>, Vec<u8>) {
    let strategy = Strategy::new(&super::options(IN_SYNC)).unwrap();
    let training = Training::new(plan, strategy, Vec::new());
    let got = Arc::default();
    let mut done = Done::default();
    for _ in 0..PASSES {
        let ended = training.epoch(
            Limits::default(),
            &got,
            |_| Ok(()),
            |rows| {
                done.steps.push(rows);
                Ok(())
            },
        );
        ended.unwrap();
    }
    done.weights = bytes(&read(&training.weights).unwrap());
    joined(&[done], plan)
}

#[test]
fn a_disturbed_training_is_the_undisturbed_one() {
    let mut failures = 0;
    for plan in tried(plans()) {
        let folder = Folder::new(&format!("given-again-{}", plan.seed));
        let size = plan.split.0;
        let first = on_ranks_of(
            &job(size, Some(plan.seed), None),
            |rank| chosen(rank, plan.split.1, IN_SYNC),
            |rank, strategy| {
                let mut disturbance = Disturbance::new(&plan, size);
                let done = train(
                    &plan,
                    rank,
                    strategy.unwrap(),
                    &mut disturbance,
                    None,
                    &folder,
                );
                (done, disturbance)
            },
        );
        let (first, disturbances): (Vec<Done>, Vec<Disturbance>) = first.into_iter().unzip();
        let (mut steps, mut weights) = joined(&first, &plan);
        failures += first[0].failures;
        if first[0].passes < PASSES {
            let Then::Elsewhere(size, devices) = plan.then else {
                panic!("{plan:?}")
            };
            let before = Some((first[0].passes, steps.len() as u64));
            // What the rank that was disturbed has left of it.
            let left = disturbances
                .iter()
                .map(|of_rank| &of_rank.steps)
                .min_by_key(|left| left.len());
            let second = on_ranks_of(
                &job(size, Some(plan.seed), None),
                |rank| chosen(rank, devices, IN_SYNC),
                |rank, strategy| {
                    let mut disturbance = Disturbance::new(&plan, size);
                    disturbance.steps.clone_from(left.unwrap());
                    train(
                        &plan,
                        rank,
                        strategy.unwrap(),
                        &mut disturbance,
                        before,
                        &folder,
                    )
                },
            );
            failures += second[0].failures;
            let (more, then) = joined(&second, &plan);
            steps.extend(more);
            weights = then;
        }
        let (expected, bits) = undisturbed(&plan);
        assert_eq!(steps, expected, "{plan:?}");
        assert_eq!(weights, bits, "{plan:?}");
    }
    assert!(failures >= 2 * tried(plans()).len(), "{failures} failures");
}
