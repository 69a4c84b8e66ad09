//! Strict strategies over ranks: what is right has the bits of strategies that are not strict, and a
//! mistake of one rank's callback fails the step on all of them, with the rank and the mistake named.

use std::sync::Arc;

use umbo::error::{Result, Status};
use umbo::optimizer::momentum::Momentum;
use umbo::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial, current_tensor, read};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::tensor::{DType, Tensor};
use umbo::values::variable::{Aggregation, Variable};

use super::engine::ranks;
use super::{alone, bytes, copy_into, named, on_ranks_strict_where, tensor};

const SPLITS: [(usize, usize); 4] = [(2, 1), (2, 2), (3, 1), (3, 2)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mistake {
    BehindGradient,
    LeftOut,
    AfterSubmit,
    LentAfterSubmit,
    BesideRows,
    RowLeftOut,
    BesideScratch,
}

impl Mistake {
    const ALL: [Mistake; 7] = [
        Mistake::BehindGradient,
        Mistake::LeftOut,
        Mistake::AfterSubmit,
        Mistake::LentAfterSubmit,
        Mistake::BesideRows,
        Mistake::RowLeftOut,
        Mistake::BesideScratch,
    ];

    fn says(self) -> &'static str {
        match self {
            Mistake::BehindGradient => "'weight'",
            Mistake::LeftOut => "'weight' (float32 [6]) of which it has not written element 5",
            Mistake::AfterSubmit | Mistake::LentAfterSubmit => "after it had submitted it",
            Mistake::BesideRows => "rows of variable 'table'",
            Mistake::RowLeftOut => "element 3 of the rows",
            Mistake::BesideScratch => "outside of its scratch memory",
        }
    }
}

struct Scene {
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

const WEIGHT: usize = 0;
const BIAS: usize = 1;
const TABLE: usize = 2;

impl Scene {
    fn new(strategy: Strategy, dtype: Option<DType>, accumulation: u64) -> Scene {
        let shapes: [(&str, &[usize]); 3] = [("weight", &[6]), ("bias", &[3]), ("table", &[4, 2])];
        let make = |(name, sizes): (&str, &[usize])| {
            let numbers = vec![0.5f32; sizes.iter().product()];
            let initial = tensor(&numbers, sizes);
            let new = named(name, Aggregation::None);
            variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap()
        };
        let variables: Vec<Variable> = shapes.into_iter().map(make).collect();
        let options = GradientsOptions {
            accumulation_steps: accumulation,
            dtype,
            row_sparse: &[false, false, true],
        };
        let gradients = Gradients::with_options(
            strategy.id(),
            strategy.replica_devices(),
            variables.clone(),
            LossReduction::Mean,
            options,
        );
        let rule = Momentum::new(0.5, false).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.25).unwrap();
        Scene { gradients: gradients.unwrap(), strategy, variables, optimizer }
    }

    /// Elements of the gradients' type.
    fn numbers(&self, numbers: &[f32], sizes: &[usize]) -> Tensor {
        let half = |it: &f32| half::bf16::from_f32(*it);
        match self.gradients.dtype(WEIGHT) {
            DType::BFloat16 => tensor(&numbers.iter().map(half).collect::<Vec<_>>(), sizes),
            _ => tensor(numbers, sizes),
        }
    }

    /// Writes these bytes from `offset` bytes behind the beginning of a tensor on.
    fn put(to: *mut u8, offset: isize, of: &[u8]) {
        for (at, byte) in of.iter().enumerate() {
            // SAFETY: in the memory or in the fence around it.
            unsafe { to.offset(offset + at as isize).write(*byte) };
        }
    }

    fn contribute(
        &self,
        context: &ReplicaContext,
        step: usize,
        mistake: Option<Mistake>,
    ) -> Result<()> {
        let is = |it| mistake == Some(it);
        let replica = context.replica_in_sync();
        let size = self.gradients.dtype(WEIGHT).size() as isize;
        let number = |at: usize| ((at + replica * 3 + step) % 5) as f32 * 0.25 - 0.5;

        // SAFETY: nobody assigns.
        let seen = unsafe { current_tensor(Some(context), &self.variables[WEIGHT]) }?;
        assert_eq!(seen.shape().elements(), 6);

        let buffer = self.gradients.view_in(context, WEIGHT, GradientMode::Overwrite)?.address();
        let own: Vec<f32> = (0..6).map(number).collect();
        let own = bytes(&self.numbers(&own, &[6]));
        let written = if is(Mistake::LeftOut) { own.len() - size as usize } else { own.len() };
        Scene::put(buffer, 0, &own[..written]);
        if is(Mistake::BehindGradient) {
            Scene::put(buffer, 6 * size, &[1]);
        }

        let lent = self.numbers(&[number(1), number(2), number(3)], &[3]);
        let memory = lent.address();
        self.gradients.view_in(context, BIAS, GradientMode::Overwrite)?;
        self.gradients.discard_in(context, BIAS)?;
        self.gradients.attach_in(context, BIAS, lent)?;

        let rows = self.gradients.add_rows_in(context, TABLE, 2)?;
        copy_into(&rows.indices, &tensor(&[(replica % 4) as i64, 1], &[2]));
        let values: Vec<f32> = (0..4).map(number).collect();
        let values = bytes(&self.numbers(&values, &[4]));
        let written = if is(Mistake::RowLeftOut) { 3 } else { 4 };
        Scene::put(rows.values.address(), 0, &values[..written * size as usize]);
        if is(Mistake::BesideRows) {
            Scene::put(rows.values.address(), 4 * size, &[1]);
        }

        let scratch = context.scratch(64)?;
        Scene::put(scratch, if is(Mistake::BesideScratch) { 64 } else { 63 }, &[1]);

        self.gradients.submit_in(context, Some(1.0 + replica as f64))?;
        if is(Mistake::AfterSubmit) {
            Scene::put(buffer, 0, &[9, 9]);
        }
        if is(Mistake::LentAfterSubmit) {
            Scene::put(memory, 0, &[9, 9]);
        }
        Ok(())
    }

    /// A step, in which the replica of all with this number makes a mistake.
    fn step(&self, step: usize, deferred: bool, mistake: Option<(usize, Mistake)>) -> Result<()> {
        let callback = |context: &ReplicaContext| {
            let own = mistake.filter(|(replica, _)| *replica == context.replica_in_sync());
            self.contribute(context, step, own.map(|(_, mistake)| mistake))?;
            if deferred {
                apply(&self.optimizer, &self.gradients)?;
            }
            Ok(None)
        };
        self.strategy.run(&callback, None)?;
        match deferred {
            true => Ok(()),
            false => apply(&self.optimizer, &self.gradients).map(drop),
        }
    }

    fn weights(&self) -> Vec<Vec<u8>> {
        self.variables.iter().map(|variable| bytes(&read(variable).unwrap())).collect()
    }
}

/// Weights after each step without mistakes.
fn train(
    strategy: Strategy,
    dtype: Option<DType>,
    accumulation: u64,
    deferred: bool,
) -> Vec<Vec<Vec<u8>>> {
    let scene = Scene::new(strategy, dtype, accumulation);
    let after = |step| {
        scene.step(step, deferred, None).unwrap();
        scene.weights()
    };
    (0..4).map(after).collect()
}

#[test]
fn what_is_right_has_the_bits_of_lax_ranks() {
    for (size, replicas) in SPLITS {
        for dtype in [None, Some(DType::BFloat16)] {
            for (accumulation, deferred) in [(1, false), (1, true), (2, false), (2, true)] {
                let expected = train(alone(size * replicas), dtype, accumulation, deferred);
                // All ranks are strict, or one.
                for strict in [usize::MAX, 0, size - 1] {
                    let came = on_ranks_strict_where(
                        &ranks(size),
                        replicas,
                        |rank| strict == usize::MAX || rank == strict,
                        |_, strategy| train(strategy.unwrap(), dtype, accumulation, deferred),
                    );
                    let what =
                        || format!("{size}×{replicas}, {dtype:?}, {accumulation}, {deferred}");
                    assert!(came.iter().all(|came| *came == expected), "{}", what());
                }
            }
        }
    }
}

#[test]
fn a_mistake_of_one_rank_fails_the_step_on_all() {
    for (number, (size, replicas)) in SPLITS.into_iter().enumerate() {
        for dtype in [None, Some(DType::BFloat16)] {
            let deferred = (number + usize::from(dtype.is_some())) % 2 == 0;
            let expected = train(alone(size * replicas), dtype, 1, deferred);
            // All ranks are strict, or only the one with the mistake.
            for alone in [false, true] {
                for wrong in 0..size * replicas {
                    on_ranks_strict_where(
                        &ranks(size),
                        replicas,
                        |rank| !alone || rank == wrong / replicas,
                        |rank, strategy| {
                            let scene = Scene::new(strategy.unwrap(), dtype, 1);
                            scene.step(0, deferred, None).unwrap();
                            for mistake in Mistake::ALL {
                                let before = scene.weights();
                                let error =
                                    scene.step(1, deferred, Some((wrong, mistake))).unwrap_err();
                                check(&error, mistake, wrong, rank, replicas);
                                assert_eq!(scene.weights(), before, "{mistake:?}");
                            }
                            scene.step(1, deferred, None).unwrap();
                            assert!(scene.weights() == expected[1], "after all mistakes");
                        },
                    );
                }
            }
        }
    }
}

/// The error of rank `rank` says what replica `wrong` of all has done, and of which rank that is.
#[track_caller]
fn check(error: &umbo::error::Error, mistake: Mistake, wrong: usize, rank: usize, replicas: usize) {
    let text = error.to_string();
    assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
    let (of, replica) = (wrong / replicas, wrong % replicas);
    let is_own = of == rank;
    assert_eq!(text.contains(&format!("rank {of} failed")), !is_own, "{mistake:?}: {text}");
    let mut parts = vec!["strict mode".to_owned(), format!("replica {replica}")];
    // Others get as much of the message as fits.
    if is_own {
        parts.push(mistake.says().to_owned());
    }
    for part in parts {
        assert!(text.contains(&part), "'{part}' is not in: {mistake:?}: {text}");
    }
}
