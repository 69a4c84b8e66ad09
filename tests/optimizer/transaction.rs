//! A fault at each point of an apply's preparing part: nothing has changed, and the same apply can
//! be done again as if there had been no fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::error::{Error, Result, Status};
use umbo_core::kernels::update::pass::UpdatePass;
use umbo_core::optimizer::LossReduction::Mean;
use umbo_core::optimizer::rules::{Rates, Running, Scalars, Slot, VariableProgress};
use umbo_core::optimizer::{
    Gradients, LossScaling, Optimizer, Settings, UpdateRule, VariableGroup,
};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::values::variable::Variable;

use crate::allocator::{LARGE, refusing};
use crate::features::AVERAGES;
use crate::setup::*;

const REPLICAS: usize = 2;
const RUNS: u64 = 3;
const APPLIES: u64 = 9;
/// The elements of a variable, and the rows of a table, whose memory may be refused.
const WIDTH: usize = LARGE / 4;

/// Where something goes wrong: the n-th time, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Memory runs out.
    Memory(usize),
    /// The rule cannot compute the scalars of a variable.
    Scalars(usize),
    /// The schedule fails.
    Schedule(usize),
    /// The schedule gives no rate that makes sense.
    Rate(usize),
}

/// Adam that fails once.
#[derive(Debug)]
struct Failing {
    adam: Box<dyn UpdateRule>,
    until_failure: AtomicUsize,
}

/// Whether this call, of those that are counted down, is the one that goes wrong.
fn is_due(until: &AtomicUsize) -> bool {
    until.fetch_sub(1, Ordering::Relaxed) == 0
}

impl UpdateRule for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn slots(&self) -> &[Slot] {
        self.adam.slots()
    }

    fn initial_running(&self) -> Running {
        self.adam.initial_running()
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        if is_due(&self.until_failure) {
            return Err(Error::Internal("injected".into()));
        }
        self.adam.prepare(rates, progress)
    }

    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        self.adam.update(scalars, pass);
    }
}

/// Bits of weights and slots, the number of updates, bits of loss scale and learning rate.
type Visible = (Vec<Vec<u32>>, u64, [u64; 2]);

struct Training {
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(fault: Fault) -> Training {
        let mut variables: Vec<Variable> = ["a", "b", "c"]
            .iter()
            .map(|name| variable(name, &[0.5f32; WIDTH]))
            .collect();
        variables.push(table("table", &[0.5f32; 2 * WIDTH], 2));
        let all: Vec<&Variable> = variables.iter().collect();
        let gradients = row_gradients(REPLICAS, &all, Mean, &[false, false, false, true], RUNS);
        let scalars = if let Fault::Scalars(number) = fault {
            number
        } else {
            usize::MAX
        };
        let rule = Failing {
            adam: rule("adam"),
            until_failure: AtomicUsize::new(scalars),
        };
        let optimizer = Optimizer::new(STRATEGY, Box::new(rule), 0.1).unwrap();
        let settings = Settings {
            global_clip_norm: Some(0.75),
            weight_decay: Some(0.1),
            loss_scaling: Some(LossScaling::Dynamic {
                initial: 4.0,
                growth_factor: 2.0,
                growth_interval: 2,
                backoff_factor: 0.5,
                minimum: 1.0,
            }),
            averaging: AVERAGES[1],
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        // Variables that are treated alike share their scalars, and a fault there is one fault.
        for (index, variable) in variables.iter().enumerate() {
            let group = VariableGroup {
                learning_rate_factor: 1.0 + index as f64,
                ..VariableGroup::default()
            };
            optimizer
                .add_group(std::slice::from_ref(variable), group)
                .unwrap();
        }
        let until = AtomicUsize::new(match fault {
            Fault::Schedule(number) | Fault::Rate(number) => number,
            _ => usize::MAX,
        });
        optimizer.set_schedule(Arc::new(move |step| match is_due(&until) {
            true if matches!(fault, Fault::Rate(_)) => Ok(-1.0),
            true => Err(Error::Unavailable("injected".into())),
            false => Ok(0.1 / (step + 1) as f64),
        }));
        Training {
            variables,
            gradients,
            optimizer,
        }
    }

    fn run(&self, number: u64) {
        for replica in 0..REPLICAS {
            for index in 0..self.variables.len() {
                let slope = number as f32 + index as f32 * 0.25 - replica as f32;
                let data: Vec<f32> = (0..WIDTH)
                    .map(|i| (i as f32 - 40.0) * slope / 1024.0)
                    .collect();
                if index == 3 {
                    // Other rows in each run, and some of them twice.
                    let row =
                        |row: i64| (row * number as i64 + replica as i64) % (WIDTH as i64 - 1);
                    let rows: Vec<i64> = (0..WIDTH as i64 / 2).map(row).collect();
                    add_rows(&self.gradients, number, replica, index, &rows, &data);
                    continue;
                }
                overwrite(&self.gradients, number, replica, index, &data);
            }
        }
        submit(&self.gradients, number, &[3.0, 1.0]);
        self.gradients.commit(number);
    }

    /// All that can be seen, bit by bit.
    fn state(&self) -> Visible {
        let mut all: Vec<Vec<u32>> = Vec::new();
        for variable in &self.variables {
            all.push(bits(&value(variable)));
            for name in ["m", "v", "average"] {
                let state = self.optimizer.state(variable, name);
                all.push(state.map(|state| bits(&read(&state))).unwrap_or_default());
            }
        }
        let numbers = [self.optimizer.loss_scale(), self.optimizer.learning_rate()];
        (all, self.optimizer.iterations(), numbers.map(f64::to_bits))
    }
}

/// What came of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Came {
    /// There is no such point.
    Never,
    /// An apply failed.
    Failure,
    /// There was no memory for what can be done without.
    Nothing,
}

/// Trains; returns what comes out, and what came of the fault.
fn train(fault: Fault) -> (Visible, Came) {
    let training = Training::new(fault);
    let mut came = Came::Never;
    let mut memory = if let Fault::Memory(number) = fault {
        number
    } else {
        usize::MAX
    };
    for number in 1..=APPLIES {
        training.run(number);
        let before = training.state();
        let applied;
        (applied, memory) = refusing(memory, || apply(&training.optimizer, &training.gradients));
        if came == Came::Never && matches!(fault, Fault::Memory(_)) && memory == usize::MAX {
            came = Came::Nothing;
        }
        if let Err(error) = applied {
            came = Came::Failure;
            let expected = match fault {
                Fault::None => unreachable!("{error}"),
                Fault::Memory(_) => Status::ResourceExhausted,
                Fault::Scalars(_) => Status::Internal,
                Fault::Schedule(_) => Status::Unavailable,
                Fault::Rate(_) => Status::InvalidArgument,
            };
            assert_eq!(error.status(), expected, "{fault:?}: {error}");
            assert!(
                training.state() == before,
                "{fault:?}: the apply {number} left a trace"
            );
            apply(&training.optimizer, &training.gradients).unwrap();
        }
    }
    (training.state(), came)
}

#[test]
fn a_fault_at_any_point_leaves_no_trace() {
    let (expected, _) = train(Fault::None);
    let walk = |fault: fn(usize) -> Fault| {
        let mut failures = 0;
        let mut others = 0;
        loop {
            let fault = fault(failures + others);
            let (result, came) = train(fault);
            assert!(result == expected, "{fault:?}");
            match came {
                Came::Never => return (failures, others),
                Came::Failure => failures += 1,
                Came::Nothing => others += 1,
            }
        }
    };
    let updates = (APPLIES / RUNS) as usize;
    assert_eq!(walk(Fault::Scalars), (4 * updates, 0));
    assert_eq!(walk(Fault::Schedule), (updates, 0));
    assert_eq!(walk(Fault::Rate), (updates, 0));
    // Three slots for each variable, and for merging rows their order and sums (twice), at least.
    let (failures, others) = walk(Fault::Memory);
    assert!(failures >= 12 + 3 + 4, "{failures}");
    // Without room to keep them, gradients that were measured are made again.
    assert!(others > 0);
}
