//! Epochs over files of which each rank reads its own. Whatever ends one, and on whichever rank, a
//! row counts once, or not at all if it cannot be read, on all ranks alike; and from the places
//! that the ranks have saved the same rows follow.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use umbo_core::collectives::Assignment;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, File, FilesOptions, MapOptions, PassIterator, Sharding,
    distribute_dataset,
};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer};
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::{assign, read};
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::training::Epoch;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::engine::{Rank, job, ranks};
use super::on_gpus::tried;
use super::passed_over::epoch_over;
use super::reproducible::chosen;
use super::{on_ranks_of, tensor, variable};

/// What ends the first epoch, on one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// The end of the pass.
    Pass,
    /// As many steps as it was given, on all ranks.
    MostSteps,
    OpeningFails,
    /// A row, before it comes into a batch.
    RowFails,
    /// A batch.
    ElementFails,
    CallbackFails,
    Deadline,
    Token,
}

impl Ends {
    const ALL: [Ends; 8] = [
        Ends::Pass,
        Ends::MostSteps,
        Ends::OpeningFails,
        Ends::RowFails,
        Ends::ElementFails,
        Ends::CallbackFails,
        Ends::Deadline,
        Ends::Token,
    ];

    fn status(self) -> Status {
        match self {
            Ends::Pass | Ends::MostSteps => Status::Ok,
            Ends::OpeningFails | Ends::RowFails | Ends::ElementFails | Ends::CallbackFails => {
                Status::NotFound
            }
            Ends::Deadline => Status::DeadlineExceeded,
            Ends::Token => Status::Cancelled,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    ends: Ends,
    /// W ranks of M replicas.
    split: (usize, usize),
    /// Replicas take turns on devices.
    shares: bool,
    read_ahead: i64,
    sharding: Sharding,
    /// How many rows each file has.
    sizes: &'static [usize],
    /// The rank of which all this is true.
    rank: usize,
    /// The runs of the other ranks have limits, which nothing reaches.
    limited: bool,
}

const SPLITS: [(usize, usize); 6] = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 2)];

/// Some files are empty; ranks have more and fewer rows, and end up with parts without any.
const SIZES: [&[usize]; 3] = [&[0, 5, 3, 4, 6, 2, 7], &[9, 2, 1, 3, 17, 4, 0, 0], &[3; 8]];

/// One file, so that there are more ranks than files.
const ONE: &[usize] = &[29];

impl Plan {
    fn batch(&self) -> i64 {
        let all = self.split.0 * self.split.1;
        (2 * all + 1) as i64
    }

    /// The second file of the rank that something happens on.
    fn second(&self) -> usize {
        self.rank + self.split.0
    }

    fn options(&self, rank: usize) -> Options {
        let (size, replicas) = self.split;
        let (devices, replicas_in_sync) = match self.shares {
            false => (replicas, 0),
            true => (replicas.div_ceil(2), size * replicas),
        };
        chosen(rank, devices, replicas_in_sync)
    }

    fn distribution(&self) -> DistributeOptions {
        DistributeOptions {
            sharding: self.sharding,
            read_ahead: Some(self.read_ahead),
            ..DistributeOptions::default()
        }
    }

    fn rows(&self) -> BTreeSet<i32> {
        let of_file =
            |(file, &rows): (usize, &usize)| (0..rows).map(move |row| (100 * file + row) as i32);
        self.sizes.iter().enumerate().flat_map(of_file).collect()
    }

    /// The files' rows in batches. `armed` says whether what is to fail on this rank still has to.
    fn data(&self, rank: usize, armed: &Arc<AtomicBool>) -> Result<Dataset> {
        let fails = rank == self.rank;
        let second = self.second();
        let fails_of = |ends| {
            let armed = Arc::clone(armed);
            let is_it = fails && self.ends == ends;
            move || is_it && armed.swap(false, Ordering::SeqCst)
        };
        let opening_fails = fails_of(Ends::OpeningFails);
        let row_fails = fails_of(Ends::RowFails);
        let element_fails = fails_of(Ends::ElementFails);
        let numbers = |file: usize, rows: usize| {
            let numbers: Vec<i32> = (0..rows).map(|row| (100 * file + row) as i32).collect();
            Dataset::from_tensor_slices(&Value::Tensor(tensor(&numbers, &[rows])))
        };
        let names: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let open = move |file: File<'_>| match file.number == second && opening_fails() {
            true => Err(Error::NotFound("as planned".into())),
            false => numbers(file.number, file.path.to_str().unwrap().parse().unwrap()),
        };
        let element_spec = Some(numbers(0, 1)?.element_spec().clone());
        let files = Dataset::from_files(
            &names,
            open,
            FilesOptions {
                element_spec,
                ..Default::default()
            },
        )?;
        let check = |fails: Box<dyn Fn() -> bool + Send + Sync>| {
            move |element: &Value| {
                let rows = element.tensor_of(0)?.to_vec::<i32>()?;
                match rows.contains(&(100 * second as i32)) && fails() {
                    true => Err(Error::NotFound("as planned".into())),
                    false => Ok(element.clone()),
                }
            }
        };
        let rows = files.map(check(Box::new(row_fails)), MapOptions::default())?;
        let batches = rows.batch(self.batch(), false)?;
        batches.map(check(Box::new(element_fails)), MapOptions::default())
    }

    /// What a rank's runs are limited by in the first epoch.
    fn limits(&self, rank: usize, token: &Cancellation) -> Limits {
        let far = Limits {
            deadline: Some(Instant::now() + Duration::from_secs(3600)),
            cancellation: Some(Cancellation::new()),
        };
        match self.ends {
            Ends::Deadline if rank == self.rank => Limits {
                deadline: Some(Instant::now() + Duration::from_millis(20)),
                ..Limits::default()
            },
            Ends::Token if rank == self.rank => Limits {
                cancellation: Some(token.clone()),
                ..Limits::default()
            },
            _ if self.limited => far,
            _ => Limits::default(),
        }
    }
}

/// The rows that the replicas of a rank have got: in the step that may yet fail, and in those that
/// count.
#[derive(Default)]
struct Log {
    pending: Mutex<Vec<i32>>,
    counted: Mutex<Vec<Vec<i32>>>,
}

impl Log {
    fn count(&self) {
        let mut rows = std::mem::take(&mut *self.pending.lock().unwrap());
        rows.sort_unstable();
        self.counted.lock().unwrap().push(rows);
    }

    fn take(&self) -> Vec<Vec<i32>> {
        self.pending.lock().unwrap().clear();
        std::mem::take(&mut *self.counted.lock().unwrap())
    }
}

struct Program {
    strategy: Strategy,
    /// The sum of all rows, and how many there were: as assigned, and as the negative of what is
    /// updated.
    assigned: Variable,
    updated: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    log: Arc<Log>,
}

impl Program {
    fn new(strategy: Strategy) -> Program {
        let zeros = tensor(&[0f32, 0.0], &[2]);
        let assigned = variable(&strategy, "assigned", Aggregation::Sum, &zeros);
        let updated = variable(&strategy, "updated", Aggregation::None, &zeros);
        let id = strategy.id();
        let devices = strategy.replica_devices();
        let gradients = Gradients::new(
            id,
            devices,
            vec![updated.clone()],
            LossReduction::GlobalMean,
            Default::default(),
        )
        .unwrap();
        let optimizer = Optimizer::new(id, Box::new(Sgd), 1.0).unwrap();
        Program {
            strategy,
            assigned,
            updated,
            gradients,
            optimizer,
            log: Arc::default(),
        }
    }

    /// One epoch, in whose steps each replica calls `extra` once it has contributed.
    fn epoch(
        &self,
        iterator: &PassIterator,
        limits: Limits,
        max_steps: Option<u64>,
        extra: impl Fn(&ReplicaContext) -> Result<()> + Send + Sync + 'static,
    ) -> Result<bool> {
        let log = Arc::clone(&self.log);
        let assigned = self.assigned.clone();
        let gradients = Arc::clone(&self.gradients);
        let step = move |context: &ReplicaContext| {
            let rows = context
                .arguments()?
                .unwrap()
                .tensor_of(0)?
                .to_vec::<i32>()?;
            log.pending.lock().unwrap().extend(&rows);
            let sums = tensor(&[rows.iter().sum::<i32>() as f32, rows.len() as f32], &[2]);
            assign(&assigned, Assignment::Add, &Value::Tensor(sums.clone()))?;
            super::copy_into(
                gradients.view_in(context, 0, GradientMode::Overwrite)?,
                &sums,
            );
            gradients.submit_in(context, None)?;
            extra(context)?;
            Ok(None)
        };
        let step: Arc<ReplicaFunction> = Arc::new(step);
        let update = Some((Arc::clone(&self.optimizer), Arc::clone(&self.gradients)));
        let over = epoch_over(&self.strategy, iterator);
        let epoch = Epoch {
            update,
            limits,
            max_steps,
            reset: true,
            evaluates: false,
            ..over
        };
        let report = epoch.run(&OwnedCallback::of(step), &|_, _, _| Ok(()), &mut |_, _| {
            self.log.count();
            Ok(())
        })?;
        Ok(report.pass_ended)
    }

    fn totals(&self) -> [Vec<f32>; 2] {
        [&self.assigned, &self.updated].map(|it| read(it).unwrap().to_vec::<f32>().unwrap())
    }
}

/// What the totals are when these rows were counted.
fn totals_of<'a>(rows: impl Iterator<Item = &'a i32>) -> [Vec<f32>; 2] {
    let (sum, count) = rows.fold((0, 0), |(sum, count), row| (sum + row, count + 1));
    let sum = sum as f32;
    let count = count as f32;
    [vec![sum, count], vec![0.0 - sum, 0.0 - count]]
}

/// The rows of this rank that the iterator has yet to give, with runs that change nothing.
fn rows_from(strategy: &Strategy, iterator: &PassIterator) -> Vec<i32> {
    let rows = Mutex::new(Vec::new());
    while let Some(element) = iterator.next().unwrap() {
        let collect = |context: &ReplicaContext| {
            let rows_of_step = context
                .arguments()?
                .unwrap()
                .tensor_of(0)?
                .to_vec::<i32>()?;
            rows.lock().unwrap().extend(rows_of_step);
            Ok(None)
        };
        strategy.run(&collect, Some(element)).unwrap();
    }
    let mut rows = rows.into_inner().unwrap();
    rows.sort_unstable();
    rows
}

/// What a rank has seen: the rows that counted in the first pass and in the second, and the totals
/// after each.
struct Seen {
    rows: [Vec<i32>; 2],
    totals: [[Vec<f32>; 2]; 2],
}

fn sorted(steps: Vec<Vec<i32>>) -> Vec<i32> {
    let mut rows = steps.concat();
    rows.sort_unstable();
    rows
}

/// An epoch that ends as planned, what is left of its pass, and another pass.
fn train(plan: &Plan, rank: usize, strategy: Strategy) -> Seen {
    let program = Program::new(strategy);
    let armed = Arc::new(AtomicBool::new(true));
    let token = Cancellation::new();
    let data = plan.data(rank, &armed).unwrap();
    let distributed = distribute_dataset(&program.strategy, &data, &plan.distribution()).unwrap();
    let iterator = distributed.iterator().unwrap();

    let ends = plan.ends;
    let is_it = rank == plan.rank;
    let last = plan.split.1 - 1;
    let cancels = token.clone();
    let extra = move |context: &ReplicaContext| {
        let is_now = is_it && context.replica() == last && context.step_number() > 1;
        if !is_now || !armed.load(Ordering::SeqCst) {
            return Ok(());
        }
        match ends {
            Ends::CallbackFails if armed.swap(false, Ordering::SeqCst) => {
                return Err(Error::NotFound("as planned".into()));
            }
            Ends::Token => cancels.cancel(),
            Ends::Deadline => {}
            _ => return Ok(()),
        }
        armed.store(false, Ordering::SeqCst);
        while !context.is_cancelled() {
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    };
    let max_steps = (ends == Ends::MostSteps).then_some(2);
    let ended = program.epoch(&iterator, plan.limits(rank, &token), max_steps, extra);
    match ends {
        Ends::Pass => assert!(ended.unwrap(), "{plan:?}"),
        Ends::MostSteps => assert!(!ended.unwrap(), "{plan:?}"),
        _ => {
            let error = ended.unwrap_err();
            assert_eq!(error.status(), ends.status(), "{plan:?}: {error}");
            let told = error.to_string().contains(&format!("rank {} ", plan.rank));
            assert_eq!(told, !is_it, "{plan:?}: {error}");
        }
    }
    program.strategy.synchronize().unwrap();
    let mut rows = program.log.take();
    if ends != Ends::Pass {
        // Another program could resume here, with what this one continues with.
        let place = iterator.save_position().unwrap();
        let other = distributed.iterator().unwrap();
        other.restore_position(&place).unwrap();
        let left = rows_from(&program.strategy, &other);
        assert!(
            program
                .epoch(&iterator, Limits::default(), None, |_| Ok(()))
                .unwrap()
        );
        let rest = program.log.take();
        assert_eq!(sorted(rest.clone()), left, "{plan:?}");
        rows.extend(rest);
    }
    let first = program.totals();
    assert!(
        program
            .epoch(&iterator, Limits::default(), None, |_| Ok(()))
            .unwrap()
    );
    let second = sorted(program.log.take());
    Seen {
        rows: [sorted(rows), second],
        totals: [first, program.totals()],
    }
}

fn plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for (at, ends) in Ends::ALL.into_iter().enumerate() {
        for (split_number, split) in SPLITS.into_iter().enumerate() {
            for shares in [false, true] {
                let turn = usize::from(shares);
                // One rank reads all files, of which it has a second one.
                let is_input = matches!(
                    ends,
                    Ends::OpeningFails | Ends::RowFails | Ends::ElementFails
                );
                let is_one = !is_input && (at + split_number + turn) % 4 == 3;
                plans.push(Plan {
                    ends,
                    split,
                    shares,
                    read_ahead: [0, 2][(at + split_number) % 2],
                    sharding: match is_one || (at / 2 + split_number) % 2 == 1 {
                        true => Sharding::Auto,
                        false => Sharding::File,
                    },
                    sizes: if is_one {
                        ONE
                    } else {
                        SIZES[(at + split_number + turn) % 3]
                    },
                    rank: (at + turn) % split.0,
                    limited: (at + split_number / 2 + turn) % 2 == 1,
                });
            }
        }
    }
    plans
}

#[test]
fn however_an_epoch_over_files_ends_each_row_that_can_be_read_counts_once() {
    for (number, plan) in tried(plans().into_iter().enumerate()) {
        let job = job(plan.split.0, Some(number as u64), None);
        let seen = on_ranks_of(
            &job,
            |rank| plan.options(rank),
            |rank, strategy| train(&plan, rank, strategy.unwrap()),
        );
        let mut before: Vec<i32> = Vec::new();
        for pass in 0..2 {
            let rows: Vec<i32> = seen
                .iter()
                .flat_map(|seen| seen.rows[pass].clone())
                .collect();
            let counted: BTreeSet<i32> = rows.iter().copied().collect();
            assert_eq!(
                counted.len(),
                rows.len(),
                "a row comes twice: {plan:?}: {rows:?}"
            );
            let all = plan.rows();
            let missing: Vec<i32> = all.difference(&counted).copied().collect();
            assert!(counted.is_subset(&all), "{plan:?}: {rows:?}");
            match plan.ends {
                Ends::OpeningFails | Ends::RowFails if pass == 0 => {
                    // The rows that were in the batch already are in the next one.
                    let first = 100 * plan.second() as i32;
                    let rows = match plan.ends {
                        Ends::OpeningFails => plan.sizes[plan.second()] as i32,
                        _ => 1,
                    };
                    let failed: Vec<i32> = (first..first + rows).collect();
                    assert_eq!(missing, failed, "{plan:?}");
                }
                Ends::ElementFails if pass == 0 => {
                    let is_own = |row: &i32| *row as usize / 100 % plan.split.0 == plan.rank;
                    assert!(missing.contains(&(100 * plan.second() as i32)));
                    assert!(missing.iter().all(is_own), "{plan:?}: {missing:?}");
                    assert!(missing.len() <= plan.batch() as usize, "{plan:?}");
                }
                // The element of a step that took no effect comes again.
                _ => assert!(missing.is_empty(), "{plan:?}: {missing:?}"),
            }
            if !matches!(plan.ends, Ends::OpeningFails | Ends::ElementFails) {
                assert!(
                    missing.len() <= plan.batch() as usize,
                    "{plan:?}: {missing:?}"
                );
            }
            before.extend(rows);
            for (rank, seen) in seen.iter().enumerate() {
                let expected = totals_of(before.iter());
                assert_eq!(
                    seen.totals[pass], expected,
                    "rank {rank}, pass {pass}: {plan:?}"
                );
            }
        }
    }
}

/// A rank dies at each of its calls of the engine in turn: the others have counted the rows of
/// whole steps.
#[test]
fn a_rank_that_dies_in_an_epoch_over_files_leaves_no_half_of_a_step() {
    for (number, split) in [(2, 1), (2, 2), (3, 2)].into_iter().enumerate() {
        let plan = Plan {
            ends: Ends::Pass,
            split,
            shares: number % 2 == 1,
            read_ahead: [0, 2][number % 2],
            sharding: Sharding::File,
            sizes: SIZES[number],
            rank: 0,
            limited: number == 2,
        };
        let set_up = AtomicU64::new(0);
        // The steps of a rank, as far as they count.
        let pass = |job: &[Arc<Rank>], rank: usize, strategy: Result<Strategy>| {
            let program = Program::new(strategy.unwrap());
            let data = plan.data(rank, &Arc::default()).unwrap();
            let distributed =
                distribute_dataset(&program.strategy, &data, &plan.distribution()).unwrap();
            let iterator = distributed.iterator().unwrap();
            set_up.fetch_max(job[rank].calls(), Ordering::SeqCst);
            let limits = plan.limits(rank, &Cancellation::new());
            let ended = program.epoch(&iterator, limits, None, |_| Ok(()));
            (
                program.log.take(),
                program.totals(),
                ended.err().map(|error| error.status()),
            )
        };
        let of_job = |job: Vec<Arc<Rank>>| {
            on_ranks_of(
                &job,
                |rank| plan.options(rank),
                |rank, strategy| pass(&job, rank, strategy),
            )
        };
        let whole = ranks(split.0);
        let expected: Vec<Vec<Vec<i32>>> = of_job(whole.clone())
            .into_iter()
            .map(|(steps, ..)| steps)
            .collect();
        let first = set_up.load(Ordering::SeqCst);
        assert!(whole[0].calls() > first + 20, "there are not so few calls");
        for at in (first..whole[0].calls()).step_by(3) {
            let died = split.0 - 1;
            let came = of_job(job(split.0, Some(at), Some((died, at))));
            for (rank, (steps, totals, status)) in came.into_iter().enumerate() {
                let case = format!("rank {rank}, call {at}: {plan:?}");
                assert!(status.is_some(), "{case}");
                assert!(
                    rank == died || status == Some(Status::Unavailable),
                    "{status:?}: {case}"
                );
                assert_eq!(steps, expected[rank][..steps.len()], "{case}");
                // All had agreed on the step when the rank died, or not.
                let after = |count| {
                    totals_of(
                        expected
                            .iter()
                            .flat_map(|steps_of_rank| steps_of_rank.iter().take(count).flatten()),
                    )
                };
                let known = [after(steps.len()), after(steps.len() + 1)];
                assert!(known.contains(&totals), "{totals:?}, not {known:?}: {case}");
            }
        }
    }
}
