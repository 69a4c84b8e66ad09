//! Every rule with every option over two ranks on GPUs: the bits of ranks on CPUs, and of one
//! process.

use std::sync::Arc;

use fake_cuda::harness::under_driver;
use umbo_core::cluster::communicator::Communicator;
use umbo_core::error::Error;
use umbo_core::strategy::{Options, Strategy};

use super::engine::{self, Rank};
use super::on_gpus::let_engines_move_memory_of_gpus;
use super::optimizers::{Case, Training, cases};
use super::*;

/// A rank whose test has failed, for which the others need not wait.
struct DiesOfPanics(Arc<Rank>);

impl Drop for DiesOfPanics {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .abort(&Error::Internal("the test has failed on this rank".into()));
        }
    }
}

/// Compute devices and parameter device of each rank.
pub(super) type Places<'a> = [(&'a [&'a str], &'a str); 2];

/// Calls `body` for each rank, on a thread of its own; what it returns, in rank order. There are
/// `in_sync` replicas in all, or one for each device if that is 0.
pub(super) fn on_ranks<R: Send>(
    places: Places<'_>,
    in_sync: usize,
    body: impl Fn(usize, Strategy) -> R + Sync,
) -> Vec<R> {
    let job = engine::ranks(places.len());
    let body = &body;
    std::thread::scope(|scope| {
        let start = |(rank, (devices, parameter_device)): (&Arc<Rank>, (&[&str], &str))| {
            let dies = DiesOfPanics(Arc::clone(rank));
            let options = Options {
                compute_devices: Some(devices.iter().map(|&name| name.to_owned()).collect()),
                parameter_device: Some(parameter_device.to_owned()),
                communicator: Some(Arc::clone(rank) as Arc<dyn Communicator>),
                replicas_in_sync: in_sync,
                bind_threads: false,
                ..Options::default()
            };
            scope.spawn(move || body(dies.0.rank(), Strategy::new(&options).unwrap()))
        };
        let threads: Vec<_> = job.iter().zip(places).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

/// What each rank comes to.
fn train(case: Case, places: Places<'_>, in_sync: usize) -> Vec<Vec<u64>> {
    on_ranks(places, in_sync, |_, strategy| {
        Training::over(case, strategy).train()
    })
}

/// Ranks with a replica on each device have the bits of such ranks on CPUs. Those with a chosen
/// number of replicas, which share their devices, have the bits of one process.
#[test]
fn all_rules_and_options_over_ranks_have_the_bits_of_cpus() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "4")]) else {
        return;
    };
    registry::REGISTRY.ensure_logical_cpus(6).unwrap();
    let places: [(Places<'_>, bool); 10] = [
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1"], "GPU:1")], false),
        ([(&["GPU:0"], "GPU:0"), (&["GPU:1"], "GPU:1")], true),
        (
            [
                (&["GPU:0", "GPU:1"], "GPU:0"),
                (&["GPU:2", "GPU:3"], "GPU:3"),
            ],
            false,
        ),
        (
            [(&["GPU:0", "CPU:0"], "GPU:0"), (&["GPU:2"], "CPU:1")],
            true,
        ),
        (
            [
                (&["GPU:0", "CPU:1"], "GPU:1"),
                (&["CPU:0", "GPU:2"], "GPU:2"),
            ],
            false,
        ),
        (
            [(&["CPU:0"], "GPU:3"), (&["GPU:0", "GPU:1"], "GPU:0")],
            true,
        ),
        (
            [
                (&["GPU:1", "GPU:2"], "CPU:0"),
                (&["GPU:0", "GPU:3"], "CPU:1"),
            ],
            false,
        ),
        ([(&["CPU:0"], "CPU:0"), (&["GPU:2"], "GPU:2")], true),
        ([(&["CPU:0"], "CPU:0"), (&["GPU:2"], "GPU:2")], false),
        ([(&["GPU:1"], "CPU:0"), (&["GPU:1"], "GPU:1")], true),
    ];
    let cpus = ["CPU:0", "CPU:1", "CPU:2", "CPU:3", "CPU:4", "CPU:5"];
    for (number, mut case) in cases().into_iter().enumerate() {
        control.seed(number as u64);
        let_engines_move_memory_of_gpus(number % 3 == 0);
        let (place, chosen) = places[(number + number / 8) % places.len()];
        let in_sync = if chosen { 4 + number % 3 } else { 0 };
        case.accumulation = if chosen { 1 } else { case.accumulation };
        let expected = if chosen {
            Training::new(case, &cpus[..in_sync], "CPU:0").train()
        } else {
            let devices = &cpus[..place[0].0.len()];
            train(case, [(devices, "CPU:0"), (devices, "CPU:0")], 0).swap_remove(0)
        };
        for came in train(case, place, in_sync) {
            assert_eq!(came, expected, "{case:?}: {in_sync} on {place:?}");
        }
    }
    clean(&control);
    all_freed(&control, 4);
}
