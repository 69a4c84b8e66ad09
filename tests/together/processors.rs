//! Which processors the replicas of ranks have that share a machine.

use std::sync::{Arc, Mutex};

use umbo_core::executor::affinity::{ProcessorPart, process_processors};
use umbo_core::strategy::context::replica_threads::ReplicaThread;
use umbo_core::strategy::{Options, Strategy};

use super::engine::ranks;
use super::on_ranks_of;

/// The processors of a replica, and how many threads may compute for it.
type Share = (Vec<usize>, usize);

/// What the threads of replicas were told.
type Told = Arc<Mutex<Vec<Share>>>;

fn run(strategy: &Strategy) {
    strategy.run(&|_| Ok(None), None).unwrap();
}

/// Ranks that the launcher has not bound divide the machine, bound replicas divide their rank's
/// part of it, and copies of a strategy do as it does.
#[test]
fn ranks_of_a_machine_divide_its_processors() {
    for size in 1..=3 {
        for replicas in 1..=3 {
            for bind_threads in [false, true] {
                let told: Vec<Told> = (0..size).map(|_| Told::default()).collect();
                let options = |rank: usize| {
                    let told = Arc::clone(&told[rank]);
                    let hook = move |thread: &ReplicaThread, begins: bool| {
                        if begins {
                            let processors = thread.processors.processors().collect();
                            told.lock()
                                .unwrap()
                                .push((processors, thread.computing_threads));
                        }
                    };
                    let cpu_replicas = replicas;
                    let thread_hook = Some(Arc::new(hook) as _);
                    Options {
                        cpu_replicas,
                        bind_threads,
                        thread_hook,
                        ..Options::default()
                    }
                };
                on_ranks_of(&ranks(size), options, |_, strategy| {
                    let strategy = strategy.unwrap();
                    run(&strategy);
                    run(&strategy.deep_copy().unwrap());
                });
                for (index, told) in told.iter().enumerate() {
                    let part = ProcessorPart { index, count: size }.processors();
                    let told = told.lock().unwrap();
                    assert_eq!(told.len(), 2 * replicas);
                    for (processors, computing_threads) in &*told {
                        assert!(
                            processors.iter().all(|&each| part.contains(each)),
                            "{processors:?} of {part}"
                        );
                        if bind_threads {
                            assert_eq!(*computing_threads, processors.len());
                        } else {
                            assert_eq!(processors.len(), part.count());
                            assert_eq!(*computing_threads, (part.count() / replicas).max(1));
                        }
                    }
                }
            }
        }
    }
    assert_eq!(ProcessorPart::WHOLE.processors(), *process_processors());
}
