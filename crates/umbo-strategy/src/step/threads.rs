//! The threads of a strategy: one for each replica but the first, which usually is the calling
//! thread's.

use std::sync::Arc;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use crate::context::replica_threads::{self, ReplicaThread, ThreadHook};
use crate::protocol::mailbox::{Mailbox, Wake};
use crate::protocol::turns::Turns;
use crate::setup::layout::ReplicaLayout;
use umbo_base::error::Result;
use umbo_base::observe::log;
use umbo_executor::affinity::{self, ProcessorPart};
use umbo_executor::binding::Binding;
use umbo_executor::thread::{self, Purpose};
use umbo_executor::wait::Spin;
use umbo_executor::workers::Helping;

/// The work of a replica thread.
pub(crate) trait ReplicaJob: Send + Sync {
    /// Does the part of this replica, on its thread.
    fn execute(&self, replica: usize);
}

/// The mailboxes of a strategy's replica threads.
pub(crate) type Mailboxes = Arc<[CachePadded<Mailbox<dyn ReplicaJob>>]>;

/// How replica threads are started.
#[derive(Clone)]
pub struct Threading {
    /// Whether each is bound to the processors of its device.
    pub bind: bool,
    /// The size of the stack of each.
    pub stack_bytes: usize,
    /// The program's function for them.
    pub hook: Option<ThreadHook>,
    /// The part of the machine's processors that is this rank's.
    pub part: ProcessorPart,
}

pub(crate) struct ReplicaThreads {
    pub how: Threading,
    pub mailboxes: Mailboxes,
    /// The devices of the replicas, if replicas share devices.
    pub turns: Option<Arc<Turns>>,
    /// The identity of each of them.
    pub serving: Box<[ReplicaThread]>,
    handles: Mutex<Vec<Option<thread::Handle>>>,
    /// The number of processors the threads may use.
    pub processors: usize,
    /// The spin policy of replicas in merge calls. Those that share devices leave them to each
    /// other at once.
    pub spin: Spin,
    /// The spin policy of threads whose device is idle.
    pub idle_spin: Spin,
    /// The spin policy of a caller that takes no part in the step itself.
    pub watching_spin: Spin,
    /// Whether there are as many processors as devices, so that each device's threads can have
    /// theirs.
    pub has_processor_each: bool,
}

impl ReplicaThreads {
    /// No thread runs yet.
    pub fn new(layout: &ReplicaLayout, how: Threading) -> ReplicaThreads {
        let processors = affinity::available().min(how.part.processors().count());
        let at_once = layout.compute_devices.len();
        let replicas = layout.replica_devices.len();
        let spin_if = |spins| if spins { Spin::BOUNDED } else { Spin::NEVER };
        let is_shared = layout.is_shared();
        let serving =
            (0..replicas).map(|replica| ReplicaThread::new(layout, replica, how.bind, how.part));
        ReplicaThreads {
            serving: serving.collect(),
            how,
            mailboxes: (0..replicas)
                .map(|_| CachePadded::new(Mailbox::new()))
                .collect(),
            turns: is_shared.then(|| {
                let device_of = (0..replicas).map(|replica| layout.device_of(replica));
                Arc::new(Turns::new(device_of.collect(), at_once))
            }),
            handles: Mutex::new((0..replicas).map(|_| None).collect()),
            processors,
            spin: spin_if(at_once <= processors && !is_shared),
            idle_spin: match at_once <= processors {
                true => Spin::HELPING,
                false => Spin::NEVER,
            },
            watching_spin: spin_if(at_once < processors && !is_shared),
            has_processor_each: at_once <= processors,
        }
    }

    /// Starts the thread of a replica of the strategy with this number unless it runs.
    pub fn ensure(&self, strategy: u64, replica: usize) -> Result<()> {
        let mut handles = self.handles.lock();
        if handles[replica].is_some() {
            return Ok(());
        }
        let mailboxes = Arc::clone(&self.mailboxes);
        let turns = self.turns.clone();
        let serving = self.serving[replica].clone();
        let idle_spin = self.idle_spin;
        let device = serving.device;
        let Threading {
            bind,
            stack_bytes,
            hook,
            part,
        } = self.how.clone();
        let options = thread::ThreadOptions {
            stack_bytes,
            inherit_processors: true,
            ..thread::ThreadOptions::new(format!("umbo-replica-{replica}"), Purpose::Replica)
        };
        let handle = thread::spawn(&options, move || {
            // Only CPUs are processors of the host.
            let bound = bind && device.is_host_memory();
            let bound = bound.then(|| Binding::new(serving.processors.clone(), part.processors()));
            let mut binding = bound.transpose().unwrap_or_else(|error| {
                // A run may wait for this thread.
                log::keep(log::Level::Warning, || {
                    format!("replica {replica} is not bound to the processors of {device}: {error}")
                });
                None
            });
            let home = |binding: &Option<Binding>| binding.as_ref().and_then(Binding::processor);
            mailboxes[replica].set_home(home(&binding));
            let _helping = (idle_spin == Spin::HELPING).then(|| Helping::begin(replica));
            let mut last = None;
            loop {
                let spin = spin_beside(turns.as_deref(), replica, idle_spin);
                // Between steps nothing but a step or the end can come.
                let Wake::Job(job) = mailboxes[replica].wait(spin, &mut last, || false) else {
                    break;
                };
                job.execute(replica);
                // A caller makes way for a thread that is free, too, where it was seen last.
                let moves = |binding: &mut Binding| binding.update() || binding.is_free();
                if binding.as_mut().is_some_and(moves) {
                    mailboxes[replica].set_home(home(&binding));
                }
            }
            replica_threads::end_serving(strategy, &serving, hook);
        })?;
        handles[replica] = Some(handle);
        Ok(())
    }
}

impl Drop for ReplicaThreads {
    fn drop(&mut self) {
        for mailbox in self.mailboxes.iter() {
            mailbox.close();
        }
        // A late callback that held the last reference is on one of the threads, which ends on its
        // own.
        for handle in self.handles.get_mut().drain(..).flatten() {
            if handle.join().is_err() {
                log::log(log::Level::Error, || "a replica thread panicked".into());
            }
        }
    }
}

/// The spin policy of the thread of `replica`: `idle` while its device is idle. While another
/// replica has the device, the thread yields at once, since the other one needs the processor.
pub(crate) fn spin_beside(turns: Option<&Turns>, replica: usize, idle: Spin) -> Spin {
    if turns.is_some_and(|turns| !turns.is_idle(replica)) {
        Spin::NEVER
    } else {
        idle
    }
}
