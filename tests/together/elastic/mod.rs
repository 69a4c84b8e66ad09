//! Ranks leave, die and join, between steps and within every call of a communicator. The others
//! meet anew over another one, and a rank that joins gets its state from them. The bits are those
//! of a training that nothing has disturbed.

mod communicator;
#[path = "../../checkpoint/plateau.rs"]
mod plateau;
mod refusals;
mod scene;
mod trouble;

use std::sync::{Arc, Mutex};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::error::{Result, Status};
use umbo_core::strategy::{Options, Strategy};

use self::communicator::{Death, Failing};
use self::scene::{IN_SYNC, Plan, STEPS_OF_PASS, Training, options_alone, options_of, plans};
use self::trouble::{Kind, Trouble};
use super::engine::ranks;
use super::on_gpus::tried;
use super::saving::Folder;

/// The most ranks at once.
const MOST: usize = 4;
/// About how many calls ranks make until they have a state, and in a step.
const CALLS_TO_MEET: u64 = 12;
const CALLS_OF_STEP: u64 = 10;

/// What a rank has kept: the number of steps that have counted in it, and all bytes.
type State = (u64, Vec<u8>);

/// What has become of a rank.
enum Fate {
    /// It has died, and its state with it.
    Dead,
    /// It has its state and can meet others.
    Alive(State),
    /// It has no state yet.
    Stateless,
}

/// Between two changes of the ranks.
struct Generation {
    plan: Plan,
    steps: u64,
    death: Death,
    /// What fails on which rank, and the ranks of which the epochs have limits, by bits.
    trouble: (usize, Kind, u64),
    limited: u32,
    /// Where all ranks save in the end.
    saved_to: Option<Folder>,
}

impl Generation {
    fn drawn(plan: Plan, death: Death, steps: u64, ranks: usize, random: &mut ChaCha8Rng) -> Self {
        let kind = match random.random_bool(0.6) {
            true => Trouble::KINDS[random.random_range(0..Trouble::KINDS.len())],
            false => Kind::Nothing,
        };
        let saves = death.rank >= ranks && random.random_bool(0.3);
        Generation {
            plan,
            steps,
            death,
            trouble: (
                random.random_range(0..ranks),
                kind,
                random.random_range(0..steps),
            ),
            limited: random.random_range(0..1 << ranks),
            saved_to: saves.then(|| Folder::new(&format!("elastic-{}", random.random::<u64>()))),
        }
    }

    /// One rank: it meets the others, gets the state of the one that is furthest, and makes the
    /// steps.
    fn serve(&self, engine: &Arc<Failing>, devices: usize, given: Option<State>) -> Fate {
        let mut state = given;
        let attempt = self.attempt(engine, devices, &mut state);
        if let Err(error) = &attempt {
            let status = error.status();
            let is_apart = status == Status::Unavailable && self.death.rank < MOST;
            assert!(is_apart, "{error}, {:?}, {:?}", self.trouble, self.plan);
        }
        match state {
            _ if attempt.is_err() && engine.has_died() => Fate::Dead,
            Some(state) => Fate::Alive(state),
            None => Fate::Stateless,
        }
    }

    fn attempt(
        &self,
        engine: &Arc<Failing>,
        devices: usize,
        state: &mut Option<State>,
    ) -> Result<()> {
        let rank = engine.rank.rank();
        let strategy = Strategy::new(&Options {
            communicator: Some(Arc::clone(engine) as Arc<dyn Communicator>),
            ..options_of(rank, devices)
        })?;
        let training = Training::new(strategy, self.plan)?;
        let bytes = state.as_ref().map_or(&[][..], |(_, bytes)| bytes);
        match training.checkpoint.restore_from_ranks(bytes) {
            Err(error) if error.status() == Status::NotFound => {}
            restored => restored?,
        }
        let (troubled, kind, after) = self.trouble;
        let kind = if rank == troubled {
            kind
        } else {
            Kind::Nothing
        };
        let is_limited = self.limited & 1 << rank != 0;
        let trouble = Arc::new(Trouble::new(kind, after, is_limited));
        let trained = training.train(self.steps, &trouble);
        // A rank that is gone saves nothing; all others do, whatever has failed.
        if trained.is_ok() || !engine.has_died() {
            let before = state.as_ref().map_or(0, |(steps, _)| *steps);
            let count = training.steps();
            assert!(count >= before, "{count} steps after {before}");
            *state = Some((count, training.bytes()?));
        }
        trained?;
        match &self.saved_to {
            Some(folder) => training.checkpoint.save(&folder.file()),
            None => Ok(()),
        }
    }

    /// All ranks, and whether one has died.
    fn run(&self, members: &[Option<State>], random: &mut ChaCha8Rng) -> (Vec<Fate>, bool) {
        let devices = members
            .iter()
            .map(|_| random.random_range(1..=IN_SYNC / MOST));
        let devices: Vec<usize> = devices.collect();
        let made = ranks(members.len()).into_iter();
        let engines: Vec<_> = made
            .map(|rank| Arc::new(Failing::new(rank, self.death)))
            .collect();
        let fates = std::thread::scope(|scope| {
            let start = |((engine, member), devices): ((_, &Option<State>), usize)| {
                let member = member.clone();
                scope.spawn(move || self.serve(engine, devices, member))
            };
            let threads: Vec<_> = engines
                .iter()
                .zip(members)
                .zip(devices)
                .map(start)
                .collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        (fates, engines.iter().any(|engine| engine.has_died()))
    }
}

/// What has happened to a training.
#[derive(Debug, Default)]
struct Account {
    deaths: u64,
    joins: u64,
    leaves: u64,
    /// Changes after which a rank was a step ahead of another.
    behind: u64,
    /// Times something was to fail on a rank without ending it.
    troubles: u64,
    /// Files that all ranks have written.
    files: u64,
    /// Steps that have counted in the end.
    steps: u64,
}

impl Account {
    fn changes(&self) -> u64 {
        self.deaths + self.joins + self.leaves
    }

    fn add(&mut self, other: &Account) {
        self.deaths += other.deaths;
        self.joins += other.joins;
        self.leaves += other.leaves;
        self.behind += other.behind;
        self.troubles += other.troubles;
        self.files += other.files;
        self.steps += other.steps;
    }
}

/// A training under changes of its ranks.
struct Disturbed {
    plan: Plan,
    random: ChaCha8Rng,
    undisturbed: Undisturbed,
    account: Account,
    /// What the ranks have that are there.
    members: Vec<Option<State>>,
}

/// Trains under so many changes of the ranks, as a seed draws them, and compares the state of every
/// rank after each change with that of an undisturbed training.
fn train_under_changes(plan: Plan, changes: u64, seed: u64) -> Account {
    let mut disturbed = Disturbed {
        plan,
        random: ChaCha8Rng::seed_from_u64(seed),
        undisturbed: Undisturbed::new(plan),
        account: Account::default(),
        members: vec![None; 3],
    };
    while disturbed.account.changes() < changes {
        disturbed.train();
        disturbed.change();
    }
    disturbed.account
}

impl Disturbed {
    /// Some steps, in which one rank may die.
    fn train(&mut self) {
        let random = &mut self.random;
        let size = self.members.len();
        let steps = random.random_range(1..5);
        let victim = random.random_range(0..size);
        // One that has the state survives, or there is none.
        let may_die = size > 1 && others_have(&self.members, victim, self.account.steps);
        let death = match may_die && random.random_bool(0.7) {
            true => Death {
                rank: victim,
                call: random.random_range(0..CALLS_TO_MEET + CALLS_OF_STEP * steps),
                within: random.random_bool(0.6),
                cut: random.random_range(0..1 << size),
            },
            false => Death::NEVER,
        };
        let generation = Generation::drawn(self.plan, death, steps, size, random);
        let (fates, has_died) = generation.run(&self.members, random);
        self.members.clear();
        for fate in fates {
            match fate {
                Fate::Dead => {}
                Fate::Stateless => self.members.push(None),
                Fate::Alive((count, bytes)) => {
                    self.undisturbed.check(count, &bytes);
                    self.members.push(Some((count, bytes)));
                }
            }
        }
        // Whoever came to the call in which it was to die has died, and nobody else.
        assert_eq!(size - self.members.len(), usize::from(has_died));
        self.account.deaths += u64::from(has_died);
        self.account.troubles += u64::from(generation.trouble.1 != Kind::Nothing);
        let counts = self.members.iter().flatten().map(|(count, _)| *count);
        let most = counts.clone().max().unwrap_or(0);
        self.account.behind += u64::from(counts.clone().any(|count| count < most));
        assert!(
            most >= self.account.steps,
            "a step that a rank has left is lost"
        );
        self.account.steps = most;
        if let Some(folder) = &generation.saved_to {
            self.undisturbed.check_file(most, folder);
            self.account.files += 1;
        }
    }

    /// Ranks leave and join.
    fn change(&mut self) {
        let random = &mut self.random;
        if self.members.len() > 1 && random.random_bool(0.2) {
            let leaver = random.random_range(0..self.members.len());
            if others_have(&self.members, leaver, self.account.steps) {
                self.members.remove(leaver);
                self.account.leaves += 1;
            }
        }
        while self.members.len() < MOST && random.random_bool(0.45) {
            let place = random.random_range(0..=self.members.len());
            self.members.insert(place, None);
            self.account.joins += 1;
        }
    }
}

/// Whether one that is not `but` has the state after so many steps.
fn others_have(members: &[Option<State>], but: usize, steps: u64) -> bool {
    let count = |member: &Option<State>| member.as_ref().map_or(0, |(count, _)| *count);
    let mut members = members.iter().enumerate();
    members.any(|(at, member)| at != but && count(member) == steps)
}

/// A training of one process, step by step, as far as it was asked for.
struct Undisturbed {
    plan: Plan,
    training: Training,
    states: Mutex<Vec<Vec<u8>>>,
}

impl Undisturbed {
    fn new(plan: Plan) -> Undisturbed {
        let training = Undisturbed::training(plan, 2);
        let states = Mutex::new(vec![training.bytes().unwrap()]);
        Undisturbed {
            plan,
            training,
            states,
        }
    }

    fn training(plan: Plan, devices: usize) -> Training {
        Training::new(Strategy::new(&options_alone(devices)).unwrap(), plan).unwrap()
    }

    /// The state after so many steps.
    fn after(&self, steps: u64) -> Vec<u8> {
        let mut states = self.states.lock().unwrap();
        while states.len() as u64 <= steps {
            self.training.train(1, &Arc::new(Trouble::none())).unwrap();
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
        let plan = self.plan;
        assert!(
            steps.is_multiple_of(STEPS_OF_PASS),
            "differs after {steps} steps, {plan:?}"
        );
        let training = Undisturbed::training(plan, 1);
        training.checkpoint.restore_from_memory(bytes).unwrap();
        training.train(1, &Arc::new(Trouble::none())).unwrap();
        assert!(
            training.bytes().unwrap() == self.after(steps + 1),
            "differs after a pass, {plan:?}"
        );
    }

    /// The same of what all ranks have saved together.
    fn check_file(&self, steps: u64, folder: &Folder) {
        let training = Undisturbed::training(self.plan, 1);
        training.checkpoint.restore(&folder.file()).unwrap();
        self.check(steps, &training.bytes().unwrap());
    }
}

#[test]
fn ranks_die_leave_and_join_and_the_bits_are_those_of_an_undisturbed_training() {
    const CHANGES: u64 = 20;
    let all = plans();
    let number = all.len();
    let plans = tried(all.into_iter().enumerate());
    let count = plans.len() as u64;
    let mut account = Account::default();
    for (seed, plan) in plans {
        account.add(&train_under_changes(plan, CHANGES, seed as u64));
    }
    println!("{count} plans: {account:?}");
    assert!(account.changes() >= CHANGES * count && account.steps > 4 * count);
    // A few plans, where this comes once more, may have few of any one kind.
    if count as usize == number {
        assert!(account.deaths.min(account.joins) > 2 * count);
        assert!(account.troubles.min(account.leaves) > count && account.files > count / 2);
    }
}

/// As many changes as the pages say; `cargo test --release --test together -- --ignored` runs it.
#[test]
#[ignore = "it takes minutes"]
fn ten_thousand_changes_leave_the_bits_as_they_are() {
    let plans = plans();
    let changes = 10_000_u64.div_ceil(plans.len() as u64);
    let mut account = Account::default();
    for (number, plan) in plans.into_iter().enumerate() {
        account.add(&train_under_changes(plan, changes, 10_000 + number as u64));
    }
    println!("{account:?}");
    assert!(account.deaths > 1000 && account.joins > 1000, "{account:?}");
}
