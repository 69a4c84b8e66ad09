//! The strategy: what it consists of, and how it is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::devices::Devices;
use super::layout::ReplicaLayout;
use super::metrics::{EpochMetrics, Metric};
use super::ranks::Ranks;
use super::registry::WeakRegistry;
use super::replica_threads;
use super::steps::Steps;
use super::threads::{ReplicaThreads, Threading};
use super::variable_list::VariableList;
use crate::cluster::communicator::{Communicator, RankPlace};
use crate::device::cuda::gpu::Gpu;
use crate::device::{DeviceId, DeviceKind, registry};
use crate::error::{Error, Result};
use crate::executor::affinity::ProcessorPart;
use crate::executor::{fork, thread, workers};
use crate::kernels::instruction_set::Instructions;
use crate::observe::report::{Recorder, Setup};
use crate::observe::switch::CHECK;
use crate::observe::{self, environment, log, strict};
use crate::tensor::slab::Slab;
use crate::tensor::{Tensor, blocks};
use crate::values::variable::Keeper;
use crate::values::variable::Variable;

pub use super::options::{MAX_REPLICAS, Options};

/// A central storage strategy: variables on one parameter device, callbacks replicated over the
/// compute devices, one or several on each. Cloning makes another reference to the same strategy.
///
/// All methods may be called from any thread. Steps are taken in order, one at a time; a second
/// thread that runs waits for its turn. When the last reference goes, the replica threads end; a
/// thread whose callback is late is left to come back on its own.
#[derive(Clone)]
pub struct Strategy(Arc<Inner>);

/// The configuration of a strategy, beside its devices and threads.
#[derive(Clone, Copy)]
struct StrategyConfig {
    is_default: bool,
    is_strict: bool,
}

/// All strategies but the default one: variables know theirs by its number.
static STRATEGIES: WeakRegistry<Inner> = WeakRegistry::new();

pub(super) struct Inner {
    id: u64,
    config: StrategyConfig,
    // They end before anything else of the strategy does.
    pub threads: ReplicaThreads,
    pub devices: Devices,
    pub steps: Steps,
    /// The ranks of the strategy, once they have joined, or if a process alone has asked for them.
    ranks: OnceLock<Arc<Ranks>>,
    /// After how many steps they compare their weights.
    fingerprint_interval: AtomicU64,
    /// The variables that were made in the strategy's scope.
    pub variables: Mutex<VariableList>,
    /// The slab that holds small variables.
    pub variable_slab: Mutex<Slab>,
}

impl Strategy {
    /// Makes a strategy. Starts a thread for each replica but the first. With a communicator all ranks
    /// do so together: if one fails, all do.
    pub fn new(options: &Options) -> Result<Strategy> {
        let made = Strategy::joined(options.communicator.as_ref(), Strategy::alone(options))?;
        made.0.fingerprint_interval.store(options.fingerprint_interval, Ordering::Relaxed);
        Ok(made)
    }

    fn alone(options: &Options) -> Result<Strategy> {
        environment::apply();
        let layout = options.resolved_layout()?;
        let parameter_device = options.resolved_parameter_device(&layout.compute_devices)?;
        let stack_bytes = options.resolved_stack_bytes()?;
        let hooks = options.thread_hooks.clone();
        let part = options.communicator.as_ref().map_or(ProcessorPart::WHOLE, |engine| {
            let RankPlace { node_rank, node_size, .. } = engine.place();
            ProcessorPart { index: node_rank, count: node_size }
        });
        let threading = Threading { bind: options.bind_threads, stack_bytes, hooks, part };
        strict::warn_of_variable();
        CHECK.warn();
        let config =
            StrategyConfig { is_default: false, is_strict: options.strict || strict::is_on() };
        Strategy::build(layout, parameter_device, threading, config)
    }

    /// Another strategy such as the default one: one replica on `CPU:0`, which needs no thread.
    pub(super) fn on_host() -> Result<Strategy> {
        environment::apply();
        let threading = Threading {
            bind: false,
            stack_bytes: thread::process_stack_bytes(),
            hooks: None,
            part: ProcessorPart::WHOLE,
        };
        let config = StrategyConfig { is_default: true, is_strict: strict::is_on() };
        let layout = ReplicaLayout::of_devices(vec![DeviceId::HOST]);
        Strategy::build(layout, DeviceId::HOST, threading, config)
    }

    /// The strategy that is current where a program has made none: one replica on `CPU:0`. Never freed.
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

    fn build(
        layout: ReplicaLayout,
        parameter_device: DeviceId,
        threading: Threading,
        config: StrategyConfig,
    ) -> Result<Strategy> {
        fork::note_use();
        let is_default = config.is_default;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = if is_default { 0 } else { NEXT.fetch_add(1, Ordering::Relaxed) };
        let threads = ReplicaThreads::new(&layout, threading);
        let is_cpu = |device: &&DeviceId| device.kind == DeviceKind::Cpu;
        let recorder = Recorder::new(Setup {
            replicas: layout.replica_devices.len() as u32,
            devices: layout.compute_devices.len() as u32,
            cpu_devices: layout.compute_devices.iter().filter(is_cpu).count() as u32,
            processors: threads.processors as u32,
        });
        let strategy = Strategy(Arc::new(Inner {
            id,
            config,
            threads,
            devices: Devices::open(layout, parameter_device)?,
            steps: Steps::new(recorder),
            ranks: OnceLock::new(),
            fingerprint_interval: AtomicU64::new(0),
            variables: Mutex::default(),
            variable_slab: Mutex::new(Slab::new(0)),
        }));
        for replica in 1..strategy.num_replicas() {
            strategy.ensure_thread(replica)?;
        }
        if !is_default {
            STRATEGIES.add(id, &strategy.0);
            strategy.log_setup();
        }
        Ok(strategy)
    }

    /// Says in the log what the strategy was set up with.
    fn log_setup(&self) {
        let inner = &self.0;
        let (threading, processors) = (&inner.threads.how, inner.threads.processors);
        let ReplicaLayout { compute_devices, replica_devices, .. } = &inner.devices.layout;
        let at_once = compute_devices.len();
        let devices = || {
            let names: Vec<_> = compute_devices.iter().map(ToString::to_string).collect();
            names.join(", ")
        };
        let replicas = || match inner.devices.layout.is_shared() {
            true => format!("{} replicas", replica_devices.len()),
            false => "replicas".to_owned(),
        };
        log::log(log::Level::Info, || {
            let all = threading.part.processors();
            let own = |device| registry::processors(device, &all);
            let home = |(replica, device): (usize, &DeviceId)| match own(*device) {
                Ok(processors) => format!("{replica} to {processors}"),
                Err(_) => format!("{replica} to none"),
            };
            let bound = match threading.bind {
                true => {
                    let homes: Vec<_> = replica_devices.iter().enumerate().map(home).collect();
                    format!("bound to processors ({})", homes.join(", "))
                }
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
                "strategy {}: {} on {}; variables on {}; {processors} processors; replica \
                 threads {bound}, with stacks of {} bytes; {} workers; instruction set {}; {memory}",
                inner.id,
                replicas(),
                devices(),
                self.parameter_device(),
                threading.stack_bytes,
                workers::count(),
                Instructions::chosen().set().name()
            )
        });
        if at_once > processors {
            let what =
                if inner.devices.layout.is_shared() { "compute devices" } else { "replicas" };
            log::log(log::Level::Warning, || {
                format!(
                    "{at_once} {what} on {processors} processors that this {} may use take turns, and a \
                     step takes as long as all of them together; make at most {processors} for speed",
                    if threading.part == ProcessorPart::WHOLE { "process" } else { "rank" },
                )
            });
        }
    }

    /// An independent strategy with the same devices.
    pub fn deep_copy(&self) -> Result<Strategy> {
        if self.0.config.is_default {
            return Err(Error::precondition("strategy: the default strategy cannot be copied"));
        }
        let inner = &self.0;
        let (layout, threading) = (inner.devices.layout.clone(), inner.threads.how.clone());
        let config = inner.config;
        let copy = Strategy::build(layout, self.parameter_device(), threading, config);
        let copy = Strategy::joined(Some(self.ranks().engine()), copy)?;
        copy.0.fingerprint_interval.store(self.fingerprint_interval(), Ordering::Relaxed);
        Ok(copy)
    }

    /// All variables that were made in this strategy's scope and are in use, in the order in which they
    /// were made.
    pub fn variables(&self) -> Vec<Variable> {
        self.inner().variables.lock().alive()
    }

    /// How many there are, without a list of them.
    pub fn num_variables(&self) -> usize {
        self.inner().variables.lock().count()
    }

    /// Adds one to the list.
    pub(super) fn note_made(&self, variable: &Variable) {
        self.inner().variables.lock().add(variable);
    }

    /// Joins the strategy made on this rank with those of all ranks of `engine`.
    fn joined(engine: Option<&Arc<dyn Communicator>>, made: Result<Strategy>) -> Result<Strategy> {
        let Some(engine) = engine.filter(|engine| engine.size() > 1) else { return made };
        let about = |made: &Strategy| [made.num_replicas() as u64, made.id()];
        let replicas = made.as_ref().ok().and_then(|made| made.0.devices.layout.replicas_in_sync);
        let (made, ranks) = Ranks::join(engine, made, replicas, about)?;
        observe::note_rank(ranks.rank() as u32);
        if made.0.ranks.set(ranks).is_err() {
            return Err(Error::Internal("a strategy has joined its ranks twice".into()));
        }
        Ok(made)
    }

    /// After how many steps the ranks compare their weights; 0: never.
    pub fn fingerprint_interval(&self) -> u64 {
        self.0.fingerprint_interval.load(Ordering::Relaxed)
    }

    /// The ranks of the strategy.
    pub fn ranks(&self) -> &Arc<Ranks> {
        self.0.ranks.get_or_init(|| Ranks::alone(self.num_replicas()))
    }

    /// How many replicas run in sync: those of all ranks.
    pub fn num_replicas_in_sync(&self) -> usize {
        self.ranks().num_replicas()
    }

    /// The id of this rank's first replica among all that run in sync.
    pub fn first_replica_in_sync(&self) -> usize {
        self.ranks().first_replica()
    }

    /// The number of this process among those that train together, from 0.
    pub fn rank(&self) -> usize {
        self.ranks().rank()
    }

    /// How many processes train together.
    pub fn num_ranks(&self) -> usize {
        self.ranks().size()
    }

    /// Whether there is a strategy with this id. Takes no reference to it.
    pub(super) fn is_alive(id: u64) -> bool {
        id == 0 || STRATEGIES.has(id)
    }

    /// The strategy with this number, while it lives.
    pub(crate) fn with_id(id: u64) -> Option<Strategy> {
        if id == 0 {
            return Some(Strategy::default_strategy());
        }
        STRATEGIES.find(id).map(Strategy)
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    pub(super) fn keeper(&self) -> Weak<dyn Keeper> {
        let keeper: Arc<dyn Keeper> = Arc::clone(&self.0) as Arc<dyn Keeper>;
        Arc::downgrade(&keeper)
    }

    /// A number that no other strategy of this process has; 0 is the default strategy.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether this is the default strategy.
    pub fn is_default(&self) -> bool {
        self.0.config.is_default
    }

    /// Whether mistakes of callbacks are looked for, and warnings are errors.
    pub fn is_strict(&self) -> bool {
        self.0.config.is_strict
    }

    /// Whether `other` is a reference to the very same strategy.
    pub fn is_same(&self, other: &Strategy) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.config.is_default && other.0.config.is_default)
    }

    /// The GPU of a replica, if it has one.
    pub fn gpu(&self, replica: usize) -> Option<&'static Gpu> {
        self.0.devices.gpus[replica]
    }

    /// The GPU that holds the variables, if one does.
    pub fn parameter_gpu(&self) -> Result<Option<&'static Gpu>> {
        self.0.devices.parameter_gpu()
    }

    /// How many replicas this process has.
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

    /// The canonical names of these.
    pub fn replica_device_names(&self) -> &[String] {
        &self.0.devices.names
    }

    /// The device that holds the variables.
    pub fn parameter_device(&self) -> DeviceId {
        self.0.devices.parameter
    }

    /// Whether replica threads are bound to the processors of their devices.
    pub fn binds_threads(&self) -> bool {
        self.0.threads.how.bind
    }

    /// The size of the stack of each replica's thread.
    pub fn stack_bytes(&self) -> usize {
        self.0.threads.how.stack_bytes
    }

    /// Starts the thread of `replica` unless it runs.
    pub(super) fn ensure_thread(&self, replica: usize) -> Result<()> {
        self.0.threads.ensure(self.id(), replica)
    }

    /// The calling thread, the program's own or not, is about to serve as `replica`, in whose context it
    /// is. Costs nothing but the first time.
    pub(super) fn begin_serving(&self, replica: usize, is_callers: bool) {
        let (thread, hooks) = (&self.0.threads.serving[replica], self.0.threads.how.hooks.as_ref());
        replica_threads::begin_serving(self.id(), thread, hooks, is_callers, Strategy::is_alive);
    }

    /// A metric of the last run that was committed and measured anything, over all replicas in replica order;
    /// or of the last epoch, over its steps, if that has ended since.
    pub fn metric(&self, name: &str) -> Option<Metric> {
        self.0.steps.metrics.lock().get(name)
    }

    /// Lets the metrics be what an epoch has measured, if it has measured anything.
    pub(crate) fn show_epoch(&self, epoch: &EpochMetrics) {
        let of_epoch = epoch.take();
        if !of_epoch.is_empty() {
            *self.0.steps.metrics.lock() = of_epoch;
        }
    }

    /// The names of those metrics.
    pub fn metric_names(&self) -> Vec<String> {
        self.0.steps.metrics.lock().iter().map(|(name, _)| name.into()).collect()
    }
}

impl Keeper for Inner {
    fn keep(&self, tensors: &mut dyn Iterator<Item = Tensor>) {
        self.steps.draining.keep(tensors);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if STRATEGIES.remove(self.id) {
            blocks::release_kept();
        }
    }
}
