//! The number of threads that take part in central work follows the work, also when they have
//! parked: counted, for each entry that a step has.

use std::hint;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use umbo_core::collectives::{ReduceOp, gather, reduce};
use umbo_core::device::DeviceId;
use umbo_core::executor::workers::{self, Costs};
use umbo_core::optimizer::rules::sgd::Sgd;
use umbo_core::optimizer::{GradientMode, Gradients, LossReduction, Optimizer, apply};
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::strategy::variables::{Initial, create};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::Aggregation;

const REPLICAS: usize = 2;

/// Waits until the threads beside this one have parked, as they have when a step has computed: the
/// workers, and the threads of replicas, which would help.
fn until_parked() {
    while workers::parked() != Some(workers::count() - 1) {
        hint::spin_loop();
    }
    thread::sleep(Duration::from_millis(5));
}

/// Whether `work` was shared.
fn is_shared(work: impl FnOnce()) -> bool {
    let before = workers::entries();
    work();
    workers::entries() > before
}

fn floats(elements: usize) -> Tensor {
    Tensor::zeros(
        DType::Float32,
        Shape::new(&[elements]).unwrap(),
        DeviceId::HOST,
    )
    .unwrap()
}

/// An apply of gradients of so many float32 parameters, and a run before each.
struct Applies {
    optimizer: Arc<Optimizer>,
    gradients: Arc<Gradients>,
    step: u64,
    _strategy: Strategy,
}

impl Applies {
    fn of(parameters: usize) -> Applies {
        let options = Options {
            cpu_replicas: REPLICAS,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).unwrap();
        let new = crate::fresh::new_variable("w", Aggregation::None);
        let variable = create(Some(&strategy), new, Initial::Value(&floats(parameters))).unwrap();
        let devices = vec![strategy.parameter_device(); REPLICAS];
        let sum = LossReduction::Sum;
        let gradients = Gradients::new(
            strategy.id(),
            &devices,
            vec![variable],
            sum,
            Default::default(),
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(Sgd), 0.5).unwrap();
        Applies {
            optimizer,
            gradients,
            step: 0,
            _strategy: strategy,
        }
    }

    /// Whether the apply was shared by threads that had parked, or still spun.
    fn is_shared(&mut self, parked: bool) -> bool {
        self.step += 1;
        self.gradients.try_begin_step(self.step);
        for replica in 0..REPLICAS {
            self.gradients
                .view(replica, self.step, 0, GradientMode::Overwrite)
                .unwrap();
            self.gradients.submit(replica, self.step, 1.0).unwrap();
        }
        self.gradients.commit(self.step);
        if parked {
            until_parked();
        }
        is_shared(|| drop(apply(&self.optimizer, &self.gradients).unwrap()))
    }
}

#[test]
fn small_work_wakes_nobody() {
    let true = crate::is_alone(small_work_wakes_nobody) else {
        return;
    };
    workers::set_count(2).unwrap();
    // The threads are made by the first work that is large enough for them.
    workers::fix_costs(Some(Costs::NONE));
    assert!(is_shared(|| workers::for_each_range(1 << 20, 8, &|_| {})));
    let microseconds = Duration::from_micros;
    workers::fix_costs(Some(Costs {
        latency: microseconds(40),
        wake: microseconds(4),
    }));

    // 16 bytes of traffic for a parameter: two gradients, and the weight read and written.
    let mut small = Applies::of(20_000);
    let mut large = Applies::of(2_000_000);
    for _ in 0..3 {
        assert!(!small.is_shared(true));
        assert!(large.is_shared(true));
    }
    let sum = |it: &[Tensor]| reduce(ReduceOp::Sum, it, None, DeviceId::HOST, None).unwrap();
    let gathered = |it: &[Tensor]| gather(it, 0, DeviceId::HOST, None).unwrap();
    type Work = fn(&[Tensor]) -> Tensor;
    for (work, few) in [(sum as Work, 100_000), (gathered, 50_000)] {
        let parts = [few, 2_000_000].map(|elements| [floats(elements), floats(elements)]);
        let shared = parts.map(|parts| (until_parked(), is_shared(|| drop(work(&parts)))).1);
        assert_eq!(shared, [false, true]);
    }

    // What wakes cheaply is woken sooner, and never for what one thread does in no time.
    workers::fix_costs(Some(Costs::NONE));
    assert!(small.is_shared(true));
    assert!(!Applies::of(10_000).is_shared(true));

    // Measured, work that takes far longer than any wake-up is shared, and the wake-up shows.
    workers::fix_costs(None);
    let guessed = workers::costs();
    for _ in 0..20 {
        until_parked();
        let work = |range: std::ops::Range<usize>| {
            // Some milliseconds: on a busy machine a wake-up takes a good part of one.
            for index in range.flat_map(|index| [index; 64]) {
                hint::black_box(index);
            }
        };
        assert!(is_shared(|| workers::for_each_range(
            1 << 16,
            1 << 10,
            &work
        )));
    }
    assert_ne!(workers::costs(), guessed);
}
