//! Ranks leave, die and join, between steps and within every call of a communicator. The others
//! meet anew over another one, and a rank that joins gets its state from them. The bits are those
//! of a training that nothing has disturbed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::checkpoint::{Checkpoint, Number, SavedIterator};
use umbo_core::cluster::communicator::{Communicator, EngineCall, RankPlace};
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, DistributedDataset, PassIterator, Sharding, ShuffleOptions,
    distribute_dataset,
};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{
    AverageKind, Averaging, GradientMode, Gradients, GradientsOptions, LossReduction, LossScaling,
    Optimizer, Settings, apply,
};
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::training::Epoch;
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::engine::{Rank, ranks};
use super::on_gpus::{placed, tried};
use super::passed_over::epoch_over;
use super::{copy_into, tensor, try_to_copy_into};

/// Replicas of all ranks together, so that the bits are the same however they are spread.
const IN_SYNC: usize = 6;
/// The most ranks at once.
const MOST: usize = 4;
const ROWS: i32 = 40;
const BATCH: i64 = 7;
const STEPS_OF_PASS: u64 = (ROWS as u64).div_ceil(BATCH as u64);
/// About how many calls ranks make until they have a state, and in a step.
const CALLS_TO_MEET: u64 = 12;
const CALLS_OF_STEP: u64 = 10;
/// Of less than a tile, of some tiles with a rest, and one that is updated by rows.
const SHAPES: [&[usize]; 3] = [&[5], &[3, 700], &[6, 3]];

/// A rank's end of a communicator that fails at one of the calls: on the rank that dies before it
/// is there, or, if it was there, after the others have got all of it or some have.
struct Failing {
    rank: Arc<Rank>,
    plan: Death,
    calls: AtomicU64,
    /// It is cut off from the others, as all are when one has died.
    is_cut: AtomicBool,
}

/// Who dies in which call.
#[derive(Clone, Copy, Debug)]
struct Death {
    rank: usize,
    call: u64,
    /// Whether it is there in that call.
    within: bool,
    /// The ranks that do not get what the call was to bring them, by bits.
    cut: u32,
}

impl Death {
    const NEVER: Death = Death {
        rank: usize::MAX,
        call: u64::MAX,
        within: false,
        cut: 0,
    };
}

impl Failing {
    fn gone() -> Error {
        Error::Unavailable("a rank has died".into())
    }
}

impl Communicator for Failing {
    fn place(&self) -> RankPlace {
        self.rank.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let dies = self.plan.rank == self.rank.rank() && number >= self.plan.call;
        if self.is_cut.load(Ordering::Relaxed) || dies && !self.plan.within {
            self.rank.abort(&Failing::gone());
            return Err(Failing::gone());
        }
        self.rank.call(call)?;
        if number == self.plan.call && self.plan.within {
            let is_cut = dies || self.plan.cut & 1 << self.rank.rank() != 0;
            self.is_cut.store(is_cut, Ordering::Relaxed);
            if is_cut {
                self.rank.abort(&Failing::gone());
                return Err(Failing::gone());
            }
        }
        Ok(())
    }

    fn abort(&self, error: &Error) {
        self.rank.abort(error);
    }
}

struct Training {
    strategy: Strategy,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    metrics: Arc<Metrics>,
    #[expect(dead_code, reason = "it is kept for its iterator")]
    distributed: DistributedDataset,
    iterator: Arc<PassIterator>,
    checkpoint: Arc<Checkpoint>,
}

/// Those of a process alone.
fn options(devices: usize) -> Options {
    Options {
        replicas_in_sync: IN_SYNC,
        elastic: true,
        ..super::options(devices)
    }
}

/// Those of a rank.
fn options_of(rank: usize, devices: usize) -> Options {
    Options {
        bind_threads: false,
        replicas_in_sync: IN_SYNC,
        elastic: true,
        ..placed(rank, devices)
    }
}

fn data() -> Dataset {
    let numbers: Vec<i32> = (0..ROWS).collect();
    let rows = tensor(&numbers, &[numbers.len()]);
    let shuffle = ShuffleOptions {
        buffer_size: 16,
        seed: 9,
        ..ShuffleOptions::default()
    };
    let rows = Dataset::from_tensor_slices(&Value::Tensor(rows)).unwrap();
    rows.shuffle(&shuffle).unwrap().batch(BATCH, false).unwrap()
}

impl Training {
    fn new(strategy: Strategy) -> Result<Training> {
        let mut variables = Vec::new();
        for (index, shape) in SHAPES.iter().enumerate() {
            let numbers = super::dividing::numbers(index, shape.iter().product());
            let initial = tensor(&numbers, shape);
            variables.push(umbo_core::strategy::variables::create(
                Some(&strategy),
                super::named(&format!("v{index}"), Aggregation::None),
                umbo_core::strategy::variables::Initial::Value(&initial),
            )?);
        }
        let given = GradientsOptions {
            row_sparse: &[false, false, true],
            accumulation_steps: 1,
            dtype: None,
        };
        let devices = strategy.replica_devices();
        let reduction = LossReduction::Mean;
        let of_variables = variables.clone();
        let gradients = Gradients::new(strategy.id(), devices, of_variables, reduction, given)?;
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-7)?);
        let optimizer = Optimizer::new(strategy.id(), rule, 0.01)?;
        optimizer.configure(Settings {
            global_clip_norm: Some(0.5),
            loss_scaling: Some(LossScaling::Fixed(8.0)),
            averaging: Some(Averaging {
                kind: AverageKind::Exponential {
                    decay: 0.75,
                    warmup: true,
                },
                start: 0,
                interval: 1,
            }),
            ..Settings::default()
        })?;
        let metrics = Metrics::new(&strategy);
        metrics.define("loss", MetricKind::Mean)?;
        let distributed = distribute_dataset(&strategy, &data(), &DistributeOptions::default())?;
        let iterator = Arc::new(distributed.iterator()?);
        let checkpoint = Checkpoint::new(&strategy);
        for (index, variable) in variables.iter().enumerate() {
            checkpoint.add(&format!("v{index}"), Arc::new(variable.clone()))?;
        }
        checkpoint.add("pass", Arc::new(SavedIterator(Arc::clone(&iterator))))?;
        checkpoint.add("optimizer", Arc::clone(&optimizer) as _)?;
        checkpoint.add("metrics", Arc::clone(&metrics) as _)?;
        checkpoint.set_number("passes", Number::Integer(0))?;
        Ok(Training {
            strategy,
            gradients,
            optimizer,
            metrics,
            distributed,
            iterator,
            checkpoint,
        })
    }

    /// So many more steps, over the ends of passes. `counted` is called after each.
    fn train(&self, steps: u64, counted: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let gradients = Arc::clone(&self.gradients);
        let metrics = Arc::clone(&self.metrics);
        let step: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
            let rows = context
                .arguments()?
                .unwrap()
                .tensor_of(0)?
                .to_vec::<i32>()?;
            let sum = rows.iter().map(|&row| row as f32 / 8.0).sum::<f32>();
            for (index, shape) in SHAPES.iter().enumerate().take(2) {
                let count = shape.iter().product();
                let scale = (sum - index as f32) / count as f32;
                let numbers: Vec<f32> = (0..count).map(|at| scale * (at % 7) as f32).collect();
                let view = gradients.view_in(context, index, GradientMode::Overwrite)?;
                try_to_copy_into(view, &tensor(&numbers, shape))?;
            }
            let added = gradients.add_rows_in(context, 2, 1)?;
            let row = rows.first().map_or(0, |row| i64::from(row % 6));
            copy_into(&added.indices, &tensor(&[row], &[1]));
            copy_into(&added.values, &tensor(&[sum, -sum, 0.5], &[1, 3]));
            metrics.add_in(context, "loss", f64::from(sum), rows.len() as f64)?;
            gradients.submit_in(context, Some(rows.len() as f64))?;
            Ok(None)
        });
        let mut left = steps;
        while left > 0 {
            let update = Some((Arc::clone(&self.optimizer), Arc::clone(&self.gradients)));
            let epoch = Epoch {
                update,
                metrics: Some(&self.metrics),
                keep_metrics: true,
                max_steps: Some(left),
                reset: true,
                ..epoch_over(&self.strategy, &self.iterator)
            };
            let callback = OwnedCallback::of(Arc::clone(&step));
            let report = epoch.run(&callback, &|_, _, _| Ok(()), &mut |_, _| counted())?;
            left -= report.steps;
        }
        Ok(())
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        self.checkpoint.to_bytes()
    }
}

/// The number of steps that have counted in a state.
fn steps_of(training: &Training) -> u64 {
    training.strategy.lock_between_steps().unwrap().steps()
}

/// What has become of a rank.
enum Fate {
    /// It has died, and its state with it.
    Dead,
    /// It has its state and can meet others.
    Alive(u64, Vec<u8>),
    /// It has no state yet.
    Stateless,
}

/// One rank between two changes: it meets the others, gets the state of the one that is furthest,
/// and makes so many steps.
fn serve(engine: Arc<Failing>, devices: usize, given: Option<(u64, Vec<u8>)>, steps: u64) -> Fate {
    let plan = engine.plan;
    let rank = engine.rank.rank();
    let before = given.as_ref().map_or(0, |(steps, _)| *steps);
    let mut state = given;
    let communicator = Arc::clone(&engine) as Arc<dyn Communicator>;
    let attempt = || -> Result<()> {
        let strategy = Strategy::new(&Options {
            communicator: Some(communicator),
            ..options_of(rank, devices)
        })?;
        let training = Training::new(strategy)?;
        let bytes = state.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        match training.checkpoint.restore_from_ranks(bytes) {
            Err(error) if error.status() == Status::NotFound => {}
            restored => restored?,
        }
        let trained = training.train(steps, &mut || Ok(()));
        // A rank that is gone saves nothing; all others do, whatever has failed.
        let is_dead = trained.is_err() && rank == plan.rank;
        if !is_dead {
            let count = steps_of(&training);
            assert!(count >= before, "{count} steps after {before}");
            state = Some((count, training.bytes()?));
        }
        trained
    };
    let outcome = attempt();
    match (outcome, state) {
        (Err(_), _) if rank == plan.rank => Fate::Dead,
        (_, Some((count, bytes))) => Fate::Alive(count, bytes),
        (Err(error), None) => {
            let status = error.unnamed().status();
            assert_eq!(status, Status::Unavailable, "{error}");
            Fate::Stateless
        }
        (Ok(()), None) => unreachable!("a rank that has trained has a state"),
    }
}

/// What has happened to a training.
#[derive(Debug, Default)]
struct Account {
    deaths: u64,
    within_calls: u64,
    joins: u64,
    leaves: u64,
    /// Changes after which a rank was a step ahead of another.
    behind: u64,
    /// Steps that have counted in the end.
    steps: u64,
}

/// Trains under so many changes of the ranks, as a seed draws them, and compares the state of every
/// rank after each change with that of an undisturbed training.
fn train_under_changes(changes: u64, seed: u64) -> Account {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let undisturbed = Undisturbed::new();
    let mut account = Account::default();
    let mut members: Vec<Option<(u64, Vec<u8>)>> = vec![None; 3];
    while account.deaths + account.joins + account.leaves < changes {
        let size = members.len();
        let steps = random.random_range(1..5);
        let victim = random.random_range(0..size);
        // One that has the state survives, or there is none.
        let may_die = size > 1 && others_have(&members, victim, account.steps);
        let death = match may_die && random.random_bool(0.7) {
            true => Death {
                rank: victim,
                call: random.random_range(0..CALLS_TO_MEET + CALLS_OF_STEP * steps),
                within: random.random_bool(0.6),
                cut: random.random_range(0..1 << size),
            },
            false => Death::NEVER,
        };
        let fates = generation(&members, death, steps, &mut random);
        let mut alive = Vec::new();
        for fate in fates {
            match fate {
                Fate::Dead => {
                    account.deaths += 1;
                    account.within_calls += u64::from(death.within);
                }
                Fate::Stateless => alive.push(None),
                Fate::Alive(count, bytes) => {
                    undisturbed.check(count, &bytes);
                    alive.push(Some((count, bytes)));
                }
            }
        }
        let counts: Vec<u64> = alive.iter().flatten().map(|(count, _)| *count).collect();
        let most = counts.iter().max().copied().unwrap_or(0);
        account.behind += u64::from(counts.iter().any(|count| *count < most));
        assert!(most >= account.steps, "a step that a rank has left is lost");
        account.steps = most;
        members = alive;
        if members.len() > 1 && random.random_bool(0.2) {
            let leaver = random.random_range(0..members.len());
            if others_have(&members, leaver, most) {
                members.remove(leaver);
                account.leaves += 1;
            }
        }
        while members.len() < MOST && random.random_bool(0.45) {
            let place = random.random_range(0..=members.len());
            members.insert(place, None);
            account.joins += 1;
        }
    }
    account
}

/// Whether one that is not `but` has the state after so many steps.
fn others_have(members: &[Option<(u64, Vec<u8>)>], but: usize, steps: u64) -> bool {
    let count = |member: &Option<(u64, _)>| member.as_ref().map_or(0, |(count, _)| *count);
    let mut members = members.iter().enumerate();
    members.any(|(at, member)| at != but && count(member) == steps)
}

/// All ranks between two changes.
fn generation(
    members: &[Option<(u64, Vec<u8>)>],
    death: Death,
    steps: u64,
    random: &mut ChaCha8Rng,
) -> Vec<Fate> {
    let devices: Vec<usize> = members
        .iter()
        .map(|_| random.random_range(1..=IN_SYNC / MOST))
        .collect();
    let engines = ranks(members.len()).into_iter().map(|rank| {
        Arc::new(Failing {
            rank,
            plan: death,
            calls: AtomicU64::new(0),
            is_cut: AtomicBool::new(false),
        })
    });
    std::thread::scope(|scope| {
        let start = |((engine, member), devices): ((_, &Option<_>), usize)| {
            let member = member.clone();
            scope.spawn(move || serve(engine, devices, member, steps))
        };
        let threads: Vec<_> = engines.zip(members).zip(devices).map(start).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    })
}

/// A training of one process, step by step, as far as it was asked for.
struct Undisturbed {
    training: Training,
    states: Mutex<Vec<Vec<u8>>>,
}

impl Undisturbed {
    fn new() -> Undisturbed {
        let training = Training::new(Strategy::new(&options(2)).unwrap()).unwrap();
        let states = Mutex::new(vec![training.bytes().unwrap()]);
        Undisturbed { training, states }
    }

    /// The state after so many steps.
    fn after(&self, steps: u64) -> Vec<u8> {
        let mut states = self.states.lock().unwrap();
        while states.len() as u64 <= steps {
            self.training.train(1, &mut || Ok(())).unwrap();
            states.push(self.training.bytes().unwrap());
        }
        states[steps as usize].clone()
    }

    /// Checks that a state after so many steps is that of this training, to the last bit. After the
    /// last step of a pass ranks may not have begun the next one: then it is what they make of it.
    fn check(&self, steps: u64, bytes: &[u8]) {
        if self.after(steps) == bytes {
            return;
        }
        assert!(
            steps.is_multiple_of(STEPS_OF_PASS),
            "differs after {steps} steps"
        );
        let training = Training::new(Strategy::new(&options(1)).unwrap()).unwrap();
        training.checkpoint.restore_from_memory(bytes).unwrap();
        training.train(1, &mut || Ok(())).unwrap();
        assert!(
            training.bytes().unwrap() == self.after(steps + 1),
            "differs after a pass"
        );
    }
}

#[test]
fn ranks_die_leave_and_join_and_the_bits_are_those_of_an_undisturbed_training() {
    let seeds = tried(0..8);
    let (count, changes) = (seeds.len() as u64, if seeds.len() == 8 { 30 } else { 15 });
    let accounts: Vec<Account> = seeds
        .into_iter()
        .map(|seed| train_under_changes(changes, seed))
        .collect();
    let sum = |number: fn(&Account) -> u64| accounts.iter().map(number).sum::<u64>();
    let (deaths, joins) = (sum(|it| it.deaths), sum(|it| it.joins));
    assert!(deaths.min(joins) > 2 * count && sum(|it| it.steps) > 10 * count);
}

/// As many changes as the pages say; `cargo test --release --test together -- --ignored` runs it.
#[test]
#[ignore = "it takes minutes"]
fn ten_thousand_changes_leave_the_bits_as_they_are() {
    let account = train_under_changes(10_000, 10_000);
    println!("{account:?}");
    let Account { deaths, joins, .. } = account;
    assert!(deaths > 1000 && joins > 1000, "{account:?}");
}

/// The state of an elastic rank, of which there are several.
fn state_of_one(size: usize) -> Vec<u8> {
    let states = super::on_ranks_of(
        &ranks(size),
        |rank| options_of(rank, 1),
        |_, strategy| {
            let training = Training::new(strategy.unwrap()).unwrap();
            training.train(2, &mut || Ok(())).unwrap();
            training.bytes().unwrap()
        },
    );
    assert!(states.iter().all(|state| *state == states[0]));
    states.into_iter().next().unwrap()
}

#[test]
fn the_state_of_ranks_is_refused_where_it_does_not_fit() {
    let state = state_of_one(3);
    let undisturbed = Undisturbed::new();
    undisturbed.check(2, &state);
    let restore = |given: &(dyn Fn(usize) -> Vec<u8> + Sync)| {
        super::on_ranks_of(
            &ranks(3),
            |rank| options_of(rank, 1),
            |rank, strategy| {
                let training = Training::new(strategy.unwrap()).unwrap();
                let fresh = training.bytes().unwrap();
                let restored = training.checkpoint.restore_from_ranks(&given(rank));
                let now = training.bytes().unwrap();
                assert!(restored.is_ok() || now == fresh, "something has changed");
                (restored, now)
            },
        )
    };
    // Nobody has anything.
    for (restored, _) in restore(&|_| Vec::new()) {
        assert_eq!(restored.unwrap_err().status(), Status::NotFound);
    }
    // One of them has, whichever; and it may be further than another.
    let fresh = undisturbed.after(0);
    for has in 0..3 {
        for others in [&fresh, &Vec::new()] {
            let given = |rank| {
                if rank == has {
                    state.clone()
                } else {
                    others.clone()
                }
            };
            for (restored, now) in restore(&given) {
                restored.unwrap();
                assert!(now == state);
            }
        }
    }
    // It is damaged on one rank: nobody takes anything.
    let mut damaged = state.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for given in [damaged, state[..state.len() - 1].to_vec()] {
        let of_rank = |rank| if rank == 0 { given.clone() } else { Vec::new() };
        for (restored, _) in restore(&of_rank) {
            assert_eq!(restored.unwrap_err().unnamed().status(), Status::DataLoss);
        }
    }
}

#[test]
fn elastic_ranks_refuse_what_would_die_with_one_of_them() {
    super::on_ranks_of(
        &ranks(2),
        |rank| options_of(rank, 1),
        |_, strategy| {
            let strategy = strategy.unwrap();
            let training = Training::new(strategy.clone()).unwrap();
            let refused = apply(&training.optimizer, &training.gradients).unwrap_err();
            assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
            assert!(refused.to_string().contains("elastic"), "{refused}");
            let accumulating = GradientsOptions {
                row_sparse: &[],
                accumulation_steps: 2,
                dtype: None,
            };
            let variables = training.gradients.variables().to_vec();
            let devices = strategy.replica_devices();
            let reduction = LossReduction::Mean;
            let made = Gradients::new(strategy.id(), devices, variables, reduction, accumulating);
            assert_eq!(made.unwrap_err().status(), Status::Unimplemented);
            let own_data = DistributeOptions {
                sharding: Sharding::Off,
                ..DistributeOptions::default()
            };
            let own_data = distribute_dataset(&strategy, &data(), &own_data).unwrap();
            let pass = SavedIterator(Arc::new(own_data.iterator().unwrap()));
            training.checkpoint.add("own", Arc::new(pass)).unwrap();
            let refused = training.bytes().unwrap_err();
            assert_eq!(refused.status(), Status::Unimplemented, "{refused}");
            assert!(refused.to_string().contains("'own'"), "{refused}");
        },
    );
    // One rank is elastic, the other is not.
    let some = |rank| Options {
        elastic: rank == 0,
        ..options_of(rank, 1)
    };
    super::on_ranks_of(&ranks(2), some, |_, strategy| {
        let refused = strategy.err().unwrap();
        assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
        assert!(refused.to_string().contains("elastic"), "{refused}");
    });
}
