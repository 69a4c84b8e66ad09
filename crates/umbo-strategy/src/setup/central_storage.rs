//! The strategy: what it consists of, and how it is made.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::devices::Devices;
use super::options::part_of_rank;
use crate::context::metrics::{EpochMetrics, Metric};
use crate::context::replica_threads::{self, ReplicaThread};
use crate::ranks::Ranks;
use crate::step::steps::Steps;
use crate::step::threads::{ReplicaThreads, Threading};
use umbo_base::error::{Error, Result};
use umbo_base::observe::switch::CHECK;
use umbo_base::observe::{self, log, strict};
use umbo_device::backend::Backend;
use umbo_device::{DeviceId, registry};
use umbo_diagnose::environment;
use umbo_diagnose::report::{Recorder, Setup};
use umbo_executor::affinity::ProcessorPart;
use umbo_executor::{fork, workers};
use umbo_kernels::instruction_set::{self, Instructions};
use umbo_tensor::slab::Slab;
use umbo_tensor::values::initial::DrawnNames;
use umbo_tensor::values::variable::{Keeper, Variable, WeakVariable};
use umbo_tensor::{Tensor, blocks};

pub use super::options::{MAX_REPLICAS, Options};

/// A central storage strategy: variables on one parameter device, callbacks replicated over the
/// compute devices, one or several on each. Cloning makes another reference to the same strategy.
///
/// All methods may be called from any thread. Steps are taken in order, one at a time; a second
/// thread that runs waits for its turn. When the last reference goes, the replica threads end; a
/// thread whose callback is late is left to come back on its own.
#[derive(Clone)]
pub struct Strategy(Arc<Inner>);

/// A reference to a strategy that does not keep it; the default one leads to none.
#[derive(Clone, Default)]
pub struct WeakStrategy(Weak<Inner>);

/// All strategies but the default one: variables know theirs by its number.
static STRATEGIES: Mutex<BTreeMap<u64, Weak<Inner>>> = Mutex::new(BTreeMap::new());

pub(crate) struct Inner {
    id: u64,
    // They end before anything else of the strategy does.
    pub threads: ReplicaThreads,
    /// The options that it was made with. It is strict also if the environment says so.
    pub options: Options,
    pub devices: Devices,
    /// Written in every step, and so not in the cache lines of what replicas read.
    pub steps: CachePadded<Steps>,
    /// The ranks of the strategy, once they have joined, or if a process alone has asked for them.
    ranks: OnceLock<Arc<Ranks>>,
    /// The variables that were made in the strategy's scope, in the order in which they were made.
    variables: Mutex<Vec<WeakVariable>>,
    /// The slab that holds small variables.
    pub variable_slab: Mutex<Slab>,
    /// The names of the variables whose first elements were drawn.
    pub drawn_names: Mutex<DrawnNames>,
}

/// The last reference to a strategy, which ends with it.
pub(crate) struct LastReference(#[expect(dead_code, reason = "it is only dropped")] Inner);

impl Strategy {
    /// Gives this reference up. If it was the last one, the strategy does not end yet, but with the
    /// result.
    pub(crate) fn into_last_reference(self) -> Option<LastReference> {
        Arc::into_inner(self.0).map(LastReference)
    }

    /// Makes a strategy. Starts a thread for each replica but the first. With a communicator all
    /// ranks do so together: if one fails, all do.
    pub fn new(options: &Options) -> Result<Strategy> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let made = Strategy::alone(NEXT.fetch_add(1, Ordering::Relaxed), options.clone());
        let engine = options
            .communicator
            .as_ref()
            .filter(|engine| engine.size() > 1);
        let Some(engine) = engine else { return made };
        built_with!("ranks", "strategies over several ranks");
        let about = |made: &Strategy| [made.num_replicas() as u64, made.id()];
        let replicas = made
            .as_ref()
            .ok()
            .and_then(|made| made.0.devices.layout.replicas_in_sync);
        let (made, ranks) = Ranks::join(engine, made, replicas, options.elastic, about)?;
        observe::record_rank(ranks.rank() as u32);
        if made.0.ranks.set(ranks).is_err() {
            return Err(Error::Internal(
                "a strategy has joined its ranks twice".into(),
            ));
        }
        Ok(made)
    }

    /// Another strategy such as the default one: one replica on `CPU:0`, which needs no thread.
    pub(crate) fn on_host() -> Result<Strategy> {
        Strategy::alone(
            0,
            Options {
                cpu_replicas: 1,
                bind_threads: false,
                ..Options::default()
            },
        )
    }

    /// The strategy with this id, which has joined no ranks.
    fn alone(id: u64, mut options: Options) -> Result<Strategy> {
        environment::apply();
        fork::record_use();
        let layout = options.resolved_layout()?;
        let parameter_device = options.resolved_parameter_device(&layout.compute_devices)?;
        let threading = Threading {
            bind: options.bind_threads,
            stack_bytes: options.resolved_stack_bytes()?,
            hook: options.thread_hook.clone(),
            part: part_of_rank(options.communicator.as_ref()),
        };
        options.strict |= strict::is_on();
        let threads = ReplicaThreads::new(&layout, threading);
        let is_cpu = |device: &&DeviceId| device.is_host_memory();
        let recorder = Recorder::new(Setup {
            replicas: layout.replica_devices.len() as u32,
            devices: layout.compute_devices.len() as u32,
            cpu_devices: layout.compute_devices.iter().filter(is_cpu).count() as u32,
            processors: threads.processors as u32,
        });
        let strategy = Strategy(Arc::new(Inner {
            id,
            threads,
            options,
            devices: Devices::open(layout, parameter_device)?,
            steps: CachePadded::new(Steps::new(recorder)),
            ranks: OnceLock::new(),
            variables: Mutex::default(),
            variable_slab: Mutex::new(Slab::new(0)),
            drawn_names: Mutex::default(),
        }));
        for replica in 1..strategy.num_replicas() {
            strategy.ensure_thread(replica)?;
        }
        if !strategy.is_default() {
            strict::STRICT.warn();
            CHECK.warn();
            instruction_set::warn();
            STRATEGIES.lock().insert(id, Arc::downgrade(&strategy.0));
            strategy.log_setup();
        }
        Ok(strategy)
    }

    /// The strategy that is current where a program has made none: one replica on `CPU:0`. Never
    /// freed.
    pub fn default_strategy() -> Strategy {
        static DEFAULT: OnceLock<Strategy> = OnceLock::new();
        if let Some(strategy) = DEFAULT.get() {
            return strategy.clone();
        }
        // Before others wait for it: making one may log, and a sink may call the library.
        let made =
            Strategy::on_host().expect("one replica needs no thread and CPU:0 is always there");
        DEFAULT.get_or_init(|| made).clone()
    }

    /// Says in the log what the strategy was set up with.
    fn log_setup(&self) {
        let threads = &self.0.threads;
        let layout = &self.0.devices.layout;
        let threading = &threads.how;
        let processors = threads.processors;
        let on_processors = |device: &&DeviceId| device.is_host_memory();
        let at_once = layout.compute_devices.iter().filter(on_processors).count();
        log::log(log::Level::Info, || {
            let devices: Vec<_> = layout
                .compute_devices
                .iter()
                .map(ToString::to_string)
                .collect();
            let home =
                |thread: &ReplicaThread| format!("{} to {}", thread.replica, thread.processors);
            let homes: Vec<_> = threads.serving.iter().map(home).collect();
            let bound = match threading.bind {
                true => format!("bound to processors ({})", homes.join(", ")),
                false => "not bound".to_owned(),
            };
            let memory = match registry::memory_info(self.parameter_device()) {
                Ok(memory) => format!(
                    "{} of {} bytes of memory available on {}",
                    memory.available_bytes,
                    memory.total_bytes,
                    self.parameter_device()
                ),
                Err(error) => format!("memory not known: {error}"),
            };
            format!(
                "strategy {}: {} replicas on {}; variables on {}; {processors} processors; \
                 replica threads {bound}, with stacks of {} bytes; {} workers; instruction set \
                 {}; {memory}",
                self.id(),
                self.num_replicas(),
                devices.join(", "),
                self.parameter_device(),
                threading.stack_bytes,
                workers::count(),
                Instructions::chosen().set().name()
            )
        });
        if at_once > processors {
            let noun = if layout.is_shared() {
                "compute devices"
            } else {
                "replicas"
            };
            log::log(log::Level::Warning, || {
                format!(
                    "{at_once} {noun} on {processors} processors that this {} may use take turns, \
                     and a step takes as long as all of them together; make at most {processors} \
                     for speed",
                    if threading.part == ProcessorPart::WHOLE {
                        "process"
                    } else {
                        "rank"
                    },
                )
            });
        }
    }

    /// An independent strategy with the same devices.
    pub fn deep_copy(&self) -> Result<Strategy> {
        if self.is_default() {
            return Err(Error::precondition(
                "strategy: the default strategy cannot be copied",
            ));
        }
        Strategy::new(&self.0.options)
    }

    /// All variables that were made in this strategy's scope and are in use, in the order in which
    /// they were made.
    pub fn variables(&self) -> Vec<Variable> {
        self.0
            .variables
            .lock()
            .iter()
            .filter_map(WeakVariable::upgrade)
            .collect()
    }

    /// Adds one to the list. Those that are gone are forgotten when the list is full.
    pub(crate) fn record_made(&self, variable: &Variable) {
        let mut variables = self.0.variables.lock();
        if variables.len() == variables.capacity() {
            variables.retain(WeakVariable::is_alive);
            let more = variables.len().max(64);
            variables.reserve(more);
        }
        variables.push(variable.downgrade());
    }

    /// The ranks of the strategy.
    pub fn ranks(&self) -> &Arc<Ranks> {
        self.0
            .ranks
            .get_or_init(|| Ranks::alone(self.num_replicas()))
    }

    /// The number of replicas that run in sync: those of all ranks.
    pub fn num_replicas_in_sync(&self) -> usize {
        self.ranks().num_replicas()
    }

    /// The number of this process among those that train together, from 0.
    pub fn rank(&self) -> usize {
        self.ranks().rank()
    }

    /// Whether there is a strategy with this id. Takes no reference to it.
    pub(crate) fn is_alive(id: u64) -> bool {
        id == 0
            || STRATEGIES
                .lock()
                .get(&id)
                .is_some_and(|member| member.strong_count() > 0)
    }

    /// The strategy with this number, while it lives.
    pub fn with_id(id: u64) -> Option<Strategy> {
        if id == 0 {
            return Some(Strategy::default_strategy());
        }
        STRATEGIES
            .lock()
            .get(&id)
            .and_then(Weak::upgrade)
            .map(Strategy)
    }

    /// A reference that does not keep the strategy.
    pub fn downgrade(&self) -> WeakStrategy {
        WeakStrategy(Arc::downgrade(&self.0))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }

    pub(crate) fn keeper(&self) -> Weak<dyn Keeper> {
        let keeper: Arc<dyn Keeper> = Arc::clone(&self.0) as Arc<dyn Keeper>;
        Arc::downgrade(&keeper)
    }

    /// A number that no other strategy of this process has; 0 is the default strategy.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether this is the default strategy.
    pub fn is_default(&self) -> bool {
        self.id() == 0
    }

    /// Whether every rank keeps all state, so that ranks can die, leave and join.
    pub fn is_elastic(&self) -> bool {
        self.0.options.elastic
    }

    /// Whether mistakes of callbacks are looked for, and warnings are errors.
    pub fn is_strict(&self) -> bool {
        self.0.options.strict
    }

    /// Whether `other` is a reference to the very same strategy.
    pub fn is_same(&self, other: &Strategy) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.is_default() && other.is_default())
    }

    /// The opened device of a replica.
    pub fn backend(&self, replica: usize) -> &'static dyn Backend {
        self.0.devices.backends[replica]
    }

    /// The number of replicas this process has.
    pub fn num_replicas(&self) -> usize {
        self.replica_devices().len()
    }

    /// The compute devices, each once. There are as many replicas, or more.
    pub fn compute_devices(&self) -> &[DeviceId] {
        &self.0.devices.layout.compute_devices
    }

    /// The compute device of each replica of this process, in replica order.
    pub fn replica_devices(&self) -> &[DeviceId] {
        &self.0.devices.layout.replica_devices
    }

    /// How many threads should compute for a replica of this process: its share of the processors.
    /// With a chosen number of replicas in sync it is 1, since engines with other numbers of
    /// threads sum in other orders.
    pub fn computing_threads(&self, replica: usize) -> usize {
        match self.0.devices.layout.replicas_in_sync {
            None => self.0.threads.serving[replica].computing_threads,
            Some(_) => 1,
        }
    }

    /// The device that holds the variables.
    pub fn parameter_device(&self) -> DeviceId {
        self.0.devices.parameter
    }

    /// How the replicas' threads are started.
    pub fn threading(&self) -> &Threading {
        &self.0.threads.how
    }

    /// Starts the thread of `replica` unless it runs.
    pub(crate) fn ensure_thread(&self, replica: usize) -> Result<()> {
        self.0.threads.ensure(self.id(), replica)
    }

    /// The calling thread, the program's own or not, is about to serve as `replica`, in whose
    /// context it is. Costs nothing but the first time.
    pub(crate) fn begin_serving(&self, replica: usize, is_callers: bool) {
        let ReplicaThreads { serving, how, .. } = &self.0.threads;
        if let Some(hook) = &how.hook
            && replica_threads::is_new(self.id(), Strategy::is_alive)
        {
            hook(
                &ReplicaThread {
                    is_callers,
                    ..serving[replica].clone()
                },
                true,
            );
        }
    }

    /// A metric of the last run that was committed and measured anything, over all replicas in
    /// replica order; or of the last epoch, over its steps, if that has ended since.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        self.0.steps.metrics.lock().get(name)
    }

    /// Replaces the metrics by those of an epoch: by none, if it has measured nothing.
    pub fn show_epoch(&self, epoch: &EpochMetrics) {
        *self.0.steps.metrics.lock() = epoch.take();
    }

    /// Whether it was called before: an addition to a metric looks swapped, which is said once.
    pub(crate) fn has_warned_of_swap(&self) -> bool {
        let warned = &self.0.steps.has_warned_of_swap;
        warned.swap(true, Ordering::Relaxed)
    }

    /// The names of those metrics.
    pub fn metric_names(&self) -> Vec<String> {
        self.0
            .steps
            .metrics
            .lock()
            .iter()
            .map(|(name, _)| name.into())
            .collect()
    }
}

impl WeakStrategy {
    /// The strategy, while it lives. Takes no lock, as [`Strategy::with_id`] does.
    pub fn upgrade(&self) -> Option<Strategy> {
        self.0.upgrade().map(Strategy)
    }
}

impl Keeper for Inner {
    fn keep(&self, tensors: &mut dyn Iterator<Item = Tensor>) {
        self.steps.draining.keep(tensors);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut strategies = STRATEGIES.lock();
        if strategies.remove(&self.id).is_some() && strategies.is_empty() {
            drop(strategies);
            blocks::release_kept();
        }
    }
}
