//! Variables in host memory and replicas on GPUs: new weights go up in chunks while the next ones
//! are computed, nobody waits for them, and whatever fails, an update is whole or did not happen.

mod failures;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use parking_lot::Mutex;
use umbo_core::kernels::update::pass::UpdatePass;
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::rules::{Rates, Scalars, Slot, VariableProgress, catalogue};
use umbo_core::optimizer::{
    AverageKind, Averaging, GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer,
    Settings, UpdateRule, apply,
};
use umbo_core::strategy::variables::in_place::create_in_place;
use umbo_core::strategy::variables::{read, refreshed_copy};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::storage::Storage;
use umbo_core::tensor::{DType, Layout};
use umbo_core::values::variable::{Aggregation, Variable};

use super::fresh::new_variable;
use super::optimizers::elements;
use super::strategy::{strategy_on, variable};
use super::*;

/// Three chunks of weights that are sent: 2 MiB of the first variable, 2 MiB more of it, and its
/// rest with the last variable. The small one is copied at its next request.
const SIZES: [usize; 3] = [1_150_000, 37, 300_000];

#[derive(Clone, Copy, Debug)]
struct Case {
    devices: &'static [&'static str],
    rule: &'static str,
    clip: Option<f64>,
    accumulation: u64,
    /// The type in which replicas read weights and write gradients.
    narrow: Option<DType>,
    /// The gradient of the last variable has rows.
    rows: bool,
    /// The optimizer keeps a moving average of the weights.
    averages: bool,
}

const PLAIN: Case = Case {
    devices: &["GPU:0", "GPU:1"],
    rule: "momentum",
    clip: None,
    accumulation: 1,
    narrow: None,
    rows: false,
    averages: false,
};

/// A training whose gradients are the weights that a replica sees.
struct Training {
    case: Case,
    strategy: Strategy,
    variables: Vec<Variable>,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
    /// The last replica has no rows: it reads no weights and writes nothing.
    has_idle: AtomicBool,
    /// Replicas lend their gradients, which lie apart.
    lends: AtomicBool,
}

fn start(size: usize) -> Vec<f32> {
    (0..size)
        .map(|number| (number % 17) as f32 * 0.25 - 1.5)
        .collect()
}

impl Training {
    fn on(
        case: Case,
        devices: &[&str],
        starts: &[Vec<f32>],
        rule: Box<dyn UpdateRule>,
    ) -> Training {
        let strategy = strategy_on(devices, "CPU:0").unwrap();
        let make = |numbers: &Vec<f32>| variable(&strategy, Aggregation::None, numbers).unwrap();
        let variables = starts.iter().map(make).collect();
        Training::of(case, strategy, variables, rule)
    }

    fn of(
        case: Case,
        strategy: Strategy,
        variables: Vec<Variable>,
        rule: Box<dyn UpdateRule>,
    ) -> Training {
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            variables.clone(),
            LossReduction::Mean,
            GradientsOptions {
                dtype: case.narrow,
                accumulation_steps: case.accumulation,
                row_sparse: &[false, false, case.rows, false, false][..variables.len()],
            },
        );
        let optimizer = Optimizer::new(strategy.id(), rule, 0.125).unwrap();
        let settings = Settings {
            global_clip_norm: case.clip,
            averaging: case.averages.then_some(Averaging {
                kind: AverageKind::Exponential {
                    decay: 0.75,
                    warmup: true,
                },
                start: 0,
                interval: 1,
            }),
            ..Settings::default()
        };
        optimizer.configure(settings).unwrap();
        Training {
            case,
            strategy,
            variables,
            gradients: gradients.unwrap(),
            optimizer,
            has_idle: AtomicBool::new(false),
            lends: AtomicBool::new(false),
        }
    }

    fn new(case: Case) -> Training {
        let starts = SIZES.map(start);
        Training::on(
            case,
            case.devices,
            &starts,
            catalogue::make(case.rule).unwrap(),
        )
    }

    fn run(&self) -> Result<()> {
        self.strategy
            .run(&|context| self.replica(context).map(|()| None), None)
            .map(drop)
    }

    fn apply(&self) -> Result<()> {
        apply(&self.optimizer, &self.gradients).map(drop)
    }

    fn step(&self) -> Result<()> {
        self.run()?;
        self.apply()
    }

    fn replica(&self, context: &ReplicaContext) -> Result<()> {
        let is_last = context.replica() + 1 == self.strategy.replica_devices().len();
        if is_last && self.has_idle.load(Ordering::Relaxed) {
            return self.gradients.submit_in(context, Some(0.0));
        }
        for (index, variable) in self.variables.iter().enumerate() {
            let dtype = self.case.narrow.unwrap_or(variable.dtype());
            // SAFETY: nobody assigns.
            let weights = unsafe { refreshed_copy(Some(context), variable, dtype) }?;
            if self.case.rows && index == 2 {
                let all = variable.shape().elements();
                let rows = [5, all as i64 - 1, (all / 2 + context.replica()) as i64];
                let added = self.gradients.add_rows_in(context, index, rows.len())?;
                let rows = Tensor::from_slice(&rows, shape(&[3]), context.device())?;
                let values = elements(&[0.5, 1.25, -2.0], dtype, shape(&[3]), context.device());
                // SAFETY: the rows are this replica's to write.
                unsafe {
                    added.indices.assume_exclusive().copy_from(&rows)?;
                    added.values.assume_exclusive().copy_from(&values)?;
                }
                continue;
            }
            if self.lends.load(Ordering::Relaxed) {
                let lent = Tensor::uninitialized(dtype, variable.shape(), context.device())?;
                write_gradient(weights, &lent)?;
                self.gradients.attach_in(context, index, lent)?;
                continue;
            }
            let to = self
                .gradients
                .view_in(context, index, GradientMode::Overwrite)?;
            write_gradient(weights, to)?;
        }
        let weight = 1.0 + context.replica() as f64;
        self.gradients.submit_in(context, Some(weight))
    }

    /// The bits of the variables and of their state.
    fn bits(&self) -> Vec<Vec<u32>> {
        let mut all = Vec::new();
        for variable in &self.variables {
            all.push(bits(&read(variable).unwrap()));
            for slot in &self.optimizer.slots() {
                let state = self.optimizer.state(variable, &slot.name);
                all.extend(state.iter().map(bits));
            }
        }
        all
    }
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    numbers(tensor).into_iter().map(f32::to_bits).collect()
}

/// How many bytes went up and down, and how many of them without staging, with all that is queued.
fn moved(control: &Control) -> [u64; 3] {
    for id in [gpu(0), gpu(1)] {
        registry::gpu(id).unwrap().synchronize().unwrap();
    }
    ["to device", "to host", "registered"].map(|over| control.moved(over))
}

/// What the driver was asked for.
type Seen = [u64; 3];

fn asked(control: &Control) -> Seen {
    [
        "cuMemcpyHtoDAsync_v2",
        "cuMemcpyDtoHAsync_v2",
        "cuStreamSynchronize",
    ]
    .map(|call| control.calls(call))
}

/// A rule that notes what the driver was asked for when each part of an update begins and ends.
#[derive(Debug)]
struct Watching {
    rule: Momentum,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl UpdateRule for Watching {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn slots(&self) -> &[Slot] {
        self.rule.slots()
    }

    fn prepare(&self, rates: &Rates, progress: &VariableProgress) -> Result<Scalars> {
        self.rule.prepare(rates, progress)
    }

    fn update(&self, scalars: &Scalars, pass: &UpdatePass<'_>) {
        let control = Control::open().unwrap();
        let before = asked(&control);
        self.rule.update(scalars, pass);
        self.seen.lock().extend([before, asked(&control)]);
    }
}

#[test]
fn weights_go_up_while_the_next_ones_are_computed() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rule = || Watching {
        rule: Momentum::new(0.5, false).unwrap(),
        seen: Arc::clone(&seen),
    };
    for seed in 0..5 {
        control.seed(seed);
        let training = Training::on(PLAIN, PLAIN.devices, &SIZES.map(start), Box::new(rule()));
        for step in 0..3 {
            control.fault("");
            training.run().unwrap();
            let [up, down, waits] = asked(&control);
            if step == 0 {
                training.apply().unwrap();
                continue;
            }
            // Each replica waits for its gradients, which come down in one copy, and at the end of
            // its callback. It does not wait for weights: the last update has sent all but those of
            // the small variable.
            assert_eq!([up, down, waits], [2, 2, 4]);
            let events = control.calls("cuEventSynchronize");
            assert_eq!(control.calls("cuMemcpyDtoDAsync_v2"), 6);
            seen.lock().clear();
            training.apply().unwrap();
            let seen = seen.lock();
            let ups: std::collections::BTreeSet<u64> =
                seen.iter().map(|[sent, ..]| sent - up).collect();
            // The first chunk is updated before anything is sent; with each of the next ones those
            // before it are queued for both GPUs; and none waits.
            assert_eq!(ups.into_iter().collect::<Vec<_>>(), [0, 2, 4]);
            let others = |[_, down, waits]: &Seen| [*down, *waits] == [2, 4];
            assert!(seen.iter().all(others));
            // Two variables end in the last chunk.
            assert_eq!(asked(&control), [up + 8, 2, 4]);
            assert_eq!(control.calls("cuEventSynchronize"), events);
        }
        drop(training);
        clean(&control);
    }
}

/// What replicas on CPUs come to.
fn expected(case: Case, steps: usize) -> Vec<Vec<Vec<u32>>> {
    let cpus = ["CPU:0", "CPU:1", "CPU:2"];
    registry::REGISTRY
        .set_logical_count(DeviceKind::Cpu, 0, 3)
        .unwrap();
    let starts = SIZES.map(start);
    let rule = catalogue::make(case.rule).unwrap();
    let training = Training::on(case, &cpus[..case.devices.len()], &starts, rule);
    let step = |_| {
        training.step().unwrap();
        training.bits()
    };
    (0..steps).map(step).collect()
}

/// Cards and processors, rules, clipping, accumulation, 16 bits, rows and averages: the bits are
/// those of CPUs, which send nothing.
#[test]
fn what_is_sent_meanwhile_changes_no_bit() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    // One card with two logical GPUs, and another one.
    registry::REGISTRY.split_gpu(0, &[None, None]).unwrap();
    let places: [&[&str]; 4] = [
        &["GPU:0"],
        &["GPU:0", "GPU:1"],
        &["GPU:2", "CPU:0"],
        &["GPU:0", "GPU:1", "GPU:2"],
    ];
    // Each pair of choices is among them.
    for number in 0..16 {
        let bit = |bit: usize| number >> bit & 1 == 1;
        let rule = ["momentum", "adamw", "lamb"][number % 3];
        let case = Case {
            devices: places[(number + number / 4) % places.len()],
            rule,
            clip: bit(0).then_some(40.0),
            accumulation: 1 + u64::from(bit(1)),
            narrow: bit(2).then_some(DType::BFloat16),
            rows: bit(3) && catalogue::updates_rows(rule),
            averages: matches!(number % 5, 1 | 2),
        };
        let expected = expected(case, 4);
        control.seed(number as u64);
        let training = Training::new(case);
        for (step, expected) in expected.iter().enumerate() {
            training.step().unwrap();
            assert!(training.bits() == *expected, "{case:?}, step {step}");
        }
        drop(training);
        clean(&control);
    }
}

/// A replica without rows reads no weights, so that none are sent to it, until it reads them again.
#[test]
fn a_gpu_without_rows_gets_no_weights() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    let training = Training::new(PLAIN);
    let all = 4 * SIZES.iter().sum::<usize>() as u64;
    let mut before = 0;
    let mut ups = Vec::new();
    for idle in [false, false, true, true, true, false, false] {
        training.has_idle.store(idle, Ordering::Relaxed);
        training.run().unwrap();
        training.apply().unwrap();
        let [up, ..] = moved(&control);
        ups.push(up - before);
        before = up;
    }
    let small = 4 * SIZES[1] as u64;
    let sent = all - small;
    let expected = [
        2 * all + 2 * sent, // the first request of each, and what the first update sends
        2 * all,
        small + sent, // one replica reads, and is sent to
        all,
        all,
        all + small + 2 * sent + all - small - sent, // the other asks for all of them again
        2 * all,
    ];
    assert_eq!(ups, expected);
    clean(&control);
}

/// Gradients that replicas lend lie apart: all of their copies are queued and waited for once, and
/// each of them may fail.
#[test]
fn gradients_that_lie_apart_are_waited_for_once() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
        return;
    };
    registry::REGISTRY
        .set_logical_count(DeviceKind::Cpu, 0, 2)
        .unwrap();
    let starts = [90_000; 5].map(start);
    let lending = |devices: &[&str]| {
        let training = Training::on(PLAIN, devices, &starts, catalogue::make("sgd").unwrap());
        training.lends.store(true, Ordering::Relaxed);
        training
    };
    let on_cpus = lending(&["CPU:0", "CPU:1"]);
    (0..2).for_each(|_| on_cpus.step().unwrap());
    for seed in 0..5 {
        control.seed(seed);
        let training = lending(PLAIN.devices);
        training.step().unwrap();
        let before = training.bits();
        for number in [1, 2, 5, 9, 10] {
            control.fault(&format!("cuMemcpyDtoHAsync_v2:{number}:2"));
            refused(training.run(), Status::ResourceExhausted, &["GPU"]);
            assert!(training.bits() == before);
        }
        control.fault("");
        training.run().unwrap();
        // Each replica waits for its copies, and at the end of its callback.
        assert_eq!(control.calls("cuMemcpyDtoHAsync_v2"), 2 * 5);
        assert_eq!(control.calls("cuStreamSynchronize"), 2 * 2);
        training.apply().unwrap();
        assert!(training.bits() == on_cpus.bits());
        drop(training);
        clean(&control);
    }
}

/// A program's array, from a page of its own on or not, with variables next to each other.
#[test]
fn pages_of_the_programs_arrays_are_locked_as_long_as_variables_use_them() {
    let settings = [("FAKE_CUDA_DEVICES", "2")];
    let Some(control) = under_driver(&settings) else {
        return;
    };
    let expected = expected(PLAIN, 3);
    let starts = SIZES.map(start);
    for (seed, (shift, fault)) in [
        (0, ""),
        (3, ""),
        (16 << 10, ""),
        (5, "cuMemHostRegister_v2:0:712"),
        (5, "cuMemHostRegister_v2:2:2"),
    ]
    .into_iter()
    .enumerate()
    {
        control.seed(seed as u64);
        let mut array = vec![0.0f32; shift];
        starts.iter().for_each(|start| array.extend(start));
        let ends = [array[..shift].to_vec(), vec![7.0; 9]].concat();
        array.extend([7.0; 9]);
        let strategy = strategy_on(PLAIN.devices, "CPU:0").unwrap();
        let mut first = shift;
        let tensors = SIZES.map(|size| {
            let data = array.as_mut_ptr().wrapping_add(first).cast();
            first += size;
            // SAFETY: the array outlives the training, which alone uses it.
            let storage = unsafe { Storage::foreign(data, 4 * size, HOST, false, Box::new(())) };
            let layout = Layout::row_major(shape(&[size]));
            let tensor = Tensor::from_storage(Arc::new(storage), DType::Float32, layout, 0);
            (new_variable("v", Aggregation::None), tensor.unwrap())
        });
        // SAFETY: as above.
        let variables = unsafe { create_in_place(&strategy, tensors.into()) }.unwrap();
        let rule = catalogue::make("momentum").unwrap();
        let training = Training::of(PLAIN, strategy, variables, rule);
        let gradients = control.live("registered memory");
        control.fault(fault);
        training.step().unwrap();
        training.step().unwrap();
        let locked = control.live("registered memory") - gradients;
        // Two of the variables have whole pages; one of them, or none, where the driver refuses.
        let refused = ["", "cuMemHostRegister_v2:2:2", "cuMemHostRegister_v2:0:712"];
        let refused = refused.iter().position(|one| *one == fault).unwrap() as u64;
        assert_eq!(locked, 2 - refused, "{shift} {fault}");
        let before = moved(&control);
        training.step().unwrap();
        let after = moved(&control);
        let [up, down, direct] = std::array::from_fn(|over| after[over] - before[over]);
        let all = 2 * 4 * SIZES.iter().sum::<usize>() as u64;
        assert_eq!(up, all, "{shift} {fault}");
        if fault.is_empty() {
            // Of each variable at most the ends are staged: less than two pages of 64 KiB.
            let staged = up + down - direct;
            let small = 2 * 4 * SIZES[1] as u64;
            assert!(
                (small..small + 2 * 2 * (128 << 10)).contains(&staged),
                "{staged}"
            );
        }
        assert!(training.bits() == expected[2], "{shift} {fault}");
        control.fault("");
        drop(training);
        assert_eq!(control.live("registered memory"), 0);
        assert_eq!([&array[..shift], &array[first..]].concat(), ends);
        drop(array);
        clean(&control);
    }
}
