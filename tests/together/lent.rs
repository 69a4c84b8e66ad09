//! Gradients that replicas lend and take back, over ranks: the bits are those of one process whose
//! replicas write, and what was lent is let go of once, however the step ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{
    Applied, GradientMode, Gradients, GradientsOptions, Optimizer, Settings, apply,
};
use umbo_core::strategy::variables::read;
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{Layout, Tensor};
use umbo_core::values::variable::Variable;

use super::dividing::{gradients, make, numbers};
use super::engine::{job, ranks};
use super::on_gpus::{runs, tried};
use super::{alone, bytes, copy_into, on_ranks, tensor};

/// W ranks of M replicas.
const SPLITS: [(usize, usize); 3] = [(2, 1), (2, 2), (3, 1)];

/// Which replicas lend; the others write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lends {
    Nobody,
    All,
    EverySecond,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    accumulation: u64,
    deferred: bool,
    lends: Lends,
}

fn plans() -> Vec<Plan> {
    let plan = |number: usize| Plan {
        accumulation: runs(1 + number as u64 / 4),
        deferred: number / 2 % 2 == 1,
        lends: [Lends::All, Lends::EverySecond][number % 2],
    };
    (0..8).map(plan).collect()
}

/// How many gradients a rank has lent, and how many of them were let go of.
#[derive(Default)]
struct Ledger {
    lent: AtomicUsize,
    returned: AtomicUsize,
}

impl Ledger {
    fn lent(&self) -> usize {
        self.lent.load(Ordering::SeqCst)
    }

    #[track_caller]
    fn check_settled(&self) {
        assert_eq!(
            self.returned.load(Ordering::SeqCst),
            self.lent(),
            "returned of those lent"
        );
    }
}

/// Memory of the program's. Once it is let go of, it holds what would spoil every sum.
struct Memory {
    tensor: Tensor,
    ledger: Arc<Ledger>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        let count = self.tensor.shape().bytes(self.tensor.dtype()).unwrap();
        // All bits set is not a number in any of the types.
        // SAFETY: nobody else has the memory any more.
        unsafe { std::ptr::write_bytes(self.tensor.address(), 0xff, count) };
        self.ledger.returned.fetch_add(1, Ordering::SeqCst);
    }
}

/// Lends memory with these elements.
fn lend(ledger: &Arc<Ledger>, tensor: Tensor) -> Tensor {
    ledger.lent.fetch_add(1, Ordering::SeqCst);
    let dtype = tensor.dtype();
    let shape = tensor.shape();
    let data = tensor.address();
    let memory = Memory {
        tensor,
        ledger: Arc::clone(ledger),
    };
    // SAFETY: the owner keeps the memory, and writes it when nobody reads it any more.
    let storage = unsafe {
        let count = shape.bytes(dtype).unwrap();
        Storage::foreign(data, count, DeviceId::HOST, false, Box::new(memory))
    };
    Tensor::from_storage(Arc::new(storage), dtype, Layout::row_major(shape), 0).unwrap()
}

fn nonsense(shape: &[usize]) -> Tensor {
    tensor(
        &vec![f32::from_bits(u32::MAX); shape.iter().product()],
        shape,
    )
}

/// To which variables a replica of all contributes: to all but one, of which see [`Work::leave`];
/// to the second only those of some ranks do, others in each step.
fn contributes(index: usize, replica: usize, step: usize) -> bool {
    match index {
        1 => (replica + step).is_multiple_of(3),
        UNUSED => false,
        _ => true,
    }
}

const SHAPES: [&[usize]; 4] = [&[7], &[33], &[5, 2], &[130, 64]];

/// What nobody contributes to.
const UNUSED: usize = 2;

struct Work {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    ledger: Arc<Ledger>,
    plan: Plan,
}

impl Work {
    fn new(strategy: Strategy, plan: Plan) -> Work {
        let variables = make(&strategy, &SHAPES);
        let accumulation_steps = plan.accumulation;
        let options = GradientsOptions {
            accumulation_steps,
            ..GradientsOptions::default()
        };
        let gradients = gradients(&strategy, &variables, options);
        // It and clipping need every kind of exchange; the decay moves every weight that is
        // updated.
        let rule = Adam::lamb(0.9, 0.999, 1e-6, 0.01).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.05).unwrap();
        let clipped = Settings {
            global_clip_norm: Some(0.3),
            ..Settings::default()
        };
        optimizer.configure(clipped).unwrap();
        let ledger = Arc::default();
        Work {
            gradients,
            strategy,
            variables,
            optimizer,
            ledger,
            plan,
        }
    }

    fn lends(&self, replica: usize) -> bool {
        match self.plan.lends {
            Lends::Nobody => false,
            Lends::All => true,
            Lends::EverySecond => replica % 2 == 1,
        }
    }

    /// Begins a contribution and takes it back.
    fn leave(&self, context: &ReplicaContext, index: usize, lent: bool) -> Result<()> {
        let nonsense = nonsense(SHAPES[index]);
        match lent {
            true => self
                .gradients
                .attach_in(context, index, lend(&self.ledger, nonsense))?,
            false => {
                let view = self
                    .gradients
                    .view_in(context, index, GradientMode::Overwrite)?;
                copy_into(view, &nonsense);
            }
        }
        self.gradients.discard_in(context, index)
    }

    fn contribute(&self, context: &ReplicaContext, step: usize) -> Result<()> {
        let replica = context.replica_in_sync();
        // Some have no examples; what these contribute means nothing.
        let examples = (replica * 7 + step * 3) % 5;
        for (index, shape) in SHAPES.into_iter().enumerate() {
            self.leave(context, index, (replica + step + index).is_multiple_of(2))?;
            if !contributes(index, replica, step) {
                continue;
            }
            let gradient = match examples {
                0 => nonsense(shape),
                _ => {
                    let seed = step * 100 + replica * 10 + index;
                    tensor(&numbers(seed, shape.iter().product()), shape)
                }
            };
            if self.lends(replica) {
                let lent = lend(&self.ledger, gradient);
                self.gradients.attach_in(context, index, lent)?;
            } else {
                let view = self
                    .gradients
                    .view_in(context, index, GradientMode::Overwrite)?;
                copy_into(view, &gradient);
            }
        }
        self.gradients.submit_in(context, Some(examples as f64))
    }

    /// A step, at whose end replica `fails` fails if there is one; then an apply.
    fn step(&self, step: usize, fails: Option<usize>) -> Result<()> {
        let callback = |context: &ReplicaContext| {
            self.contribute(context, step)?;
            if fails == Some(context.replica_in_sync()) {
                return Err(Error::NotFound("as planned".into()));
            }
            if self.plan.deferred {
                apply(&self.optimizer, &self.gradients)?;
            }
            Ok(None)
        };
        self.strategy.run(&callback, None)?;
        if !self.plan.deferred {
            let before = self.ledger.returned.load(Ordering::SeqCst);
            assert!(self.plan.lends != Lends::All || before < self.ledger.lent());
            let outcome = apply(&self.optimizer, &self.gradients)?;
            assert!(matches!(outcome, Applied::Done(_)));
        }
        Ok(())
    }

    fn weights(&self) -> Vec<Vec<u8>> {
        self.variables
            .iter()
            .map(|variable| bytes(&read(variable).unwrap()))
            .collect()
    }
}

/// What the weights were after each step.
fn train(strategy: Strategy, plan: Plan) -> Vec<Vec<Vec<u8>>> {
    let work = Work::new(strategy, plan);
    let mut known = vec![work.weights()];
    for step in 0..5 {
        work.step(step, None).unwrap();
        work.ledger.check_settled();
        known.push(work.weights());
    }
    let unused: Vec<_> = known.iter().map(|weights| &weights[UNUSED]).collect();
    assert!(
        unused.iter().all(|weights| **weights == known[0][UNUSED]),
        "nobody contributes to it"
    );
    assert_ne!(known[0][0], known[5][0]);
    known
}

#[test]
fn what_ranks_lend_gives_the_bits_of_one_process_that_writes() {
    for (number, plan) in tried(plans().into_iter().enumerate()) {
        let (size, replicas) = SPLITS[number % 3];
        let written = Plan {
            lends: Lends::Nobody,
            ..plan
        };
        let expected = train(alone(size * replicas), written);
        assert_eq!(
            train(alone(size * replicas), plan),
            expected,
            "one process, {plan:?}"
        );
        let job = job(size, Some(number as u64), None);
        let came = on_ranks(&job, replicas, |_, strategy| train(strategy.unwrap(), plan));
        for (rank, came) in came.iter().enumerate() {
            assert!(
                *came == expected,
                "rank {rank} of {size}×{replicas}: {plan:?}"
            );
        }
    }
}

/// A replica of some rank fails when all of them have lent: nobody keeps anything, and the step can
/// be taken again.
#[test]
fn what_is_lent_comes_back_when_a_rank_fails() {
    for (number, plan) in tried(plans().into_iter().enumerate()) {
        let (size, replicas) = SPLITS[number % 3];
        let expected = train(
            alone(size * replicas),
            Plan {
                lends: Lends::Nobody,
                ..plan
            },
        );
        for fails in 0..size * replicas {
            on_ranks(&ranks(size), replicas, |rank, strategy| {
                let work = Work::new(strategy.unwrap(), plan);
                for step in 0..4 {
                    let before = work.weights();
                    let error = work.step(step, Some(fails)).unwrap_err().to_string();
                    let names = error.contains(&format!("rank {} failed", fails / replicas));
                    assert_eq!(names, rank != fails / replicas, "{error}");
                    work.ledger.check_settled();
                    assert_eq!(work.weights(), before);
                    // What waits for an update is added up and not lost.
                    work.step(step, None).unwrap();
                    work.ledger.check_settled();
                    assert!(
                        work.weights() == expected[step + 1],
                        "{plan:?}, step {step}"
                    );
                }
            });
        }
    }
}

/// The apply fails on one rank alone: what was lent waits for another apply, or for a step that
/// replaces it.
#[test]
fn what_is_lent_waits_while_no_apply_has_used_it() {
    for replaces in [false, true] {
        for (number, plan) in tried(plans().into_iter().enumerate()) {
            let (size, replicas) = SPLITS[number % 3];
            on_ranks(&ranks(size), replicas, |rank, strategy| {
                let work = Work::new(strategy.unwrap(), plan);
                // With accumulation the first step makes no update.
                for step in 1..plan.accumulation as usize {
                    work.step(step, None).unwrap();
                }
                let fails = rank == size - 1;
                work.optimizer.set_schedule(Arc::new(move |_| match fails {
                    true => Err(Error::NotFound("no schedule today".into())),
                    false => Ok(0.1),
                }));
                let before = work.weights();
                let error = work.step(9, None).unwrap_err();
                assert_eq!(error.status(), Status::NotFound, "{error}");
                let told = error
                    .to_string()
                    .contains(&format!("rank {} failed", size - 1));
                assert_eq!(told, !fails, "{error}");
                assert_eq!(work.weights(), before);
                assert_eq!(work.optimizer.iterations(), 0);
                let returned = work.ledger.returned.load(Ordering::SeqCst);
                match plan.deferred {
                    true => work.ledger.check_settled(),
                    false => {
                        let waits = returned < work.ledger.lent();
                        assert!(waits || plan.lends == Lends::EverySecond);
                    }
                }
                work.optimizer.set_learning_rate(0.1).unwrap();
                match plan.deferred || replaces {
                    true => work.step(10, None).unwrap(),
                    false => drop(apply(&work.optimizer, &work.gradients).unwrap()),
                }
                work.ledger.check_settled();
                assert_ne!(work.weights(), before);
            });
        }
    }
}

/// A rank dies at each of its calls of the engine in turn, with an apply that is deferred or one
/// that is not. Whoever is left has the weights of some step, and everything that it lent comes
/// back once it lets go of the gradients.
#[test]
fn what_is_lent_comes_back_when_a_rank_dies() {
    let plans = plans();
    for (number, (size, replicas)) in tried(SPLITS.into_iter().enumerate()) {
        for deferred in [false, true] {
            let plan = Plan {
                deferred,
                ..plans[(number * 5) % plans.len()]
            };
            let expected = train(
                alone(size * replicas),
                Plan {
                    lends: Lends::Nobody,
                    ..plan
                },
            );
            // The strategy and the variables are made in the first calls.
            for at in (10 + u64::from(deferred)..).step_by(2) {
                let job = job(size, Some(at), Some((size - 1, at)));
                let ends = on_ranks(&job, replicas, |_, strategy| {
                    let work = Work::new(strategy.unwrap(), plan);
                    let failed = (0..3).find(|&step| work.step(step, None).is_err());
                    if let Some(step) = failed {
                        assert!(expected[step] == work.weights(), "step {step}");
                        work.step(step, None).unwrap_err();
                        if plan.deferred {
                            work.ledger.check_settled();
                        }
                    }
                    let ledger = Arc::clone(&work.ledger);
                    drop(work);
                    ledger.check_settled();
                    failed
                });
                let has_died = job[size - 1].calls() > at;
                assert_eq!(ends.iter().any(Option::is_some), has_died, "{ends:?}");
                if !has_died {
                    assert!(at > 15, "there are not so few calls");
                    break;
                }
            }
        }
    }
}
