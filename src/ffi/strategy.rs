//! Strategies: making them, and what they are.

use std::ffi::c_char;

use super::boundary::{array, boundary, boundary_in_need, collect, constant, out, quietly};
use super::handle::{self, borrow, get, get_optional, make};
use super::object::{umbo_cluster_resolver, umbo_strategy, umbo_variable};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::{device_name, optional_text, text};
use crate::error::{Error, Result};
use crate::strategy::metrics::Metric;
use crate::strategy::{Options, Strategy, variables};

/// Whether replica threads are bound to the processors of their devices.
pub type umbo_thread_binding = i32;

/// Each replica's thread runs on the processors of its device, and what it starts (OpenMP, BLAS)
/// inherits them. The thread that calls umbo_strategy_run(), which runs replica 0, is left alone.
pub const UMBO_THREAD_BINDING_ON: umbo_thread_binding = 0;
/// Threads run where the operating system puts them.
pub const UMBO_THREAD_BINDING_OFF: umbo_thread_binding = 1;

/// How a central storage strategy is set up. Start from UMBO_STRATEGY_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_strategy_options {
    /// sizeof(umbo_strategy_options).
    pub struct_size: usize,
    /// Names of the compute devices, one replica each, all different. NULL: `cpu_replicas`
    /// decides; if that is 0 too, CPU:0. (This version computes on CPU devices.)
    pub compute_devices: *const *const c_char,
    /// How many names there are.
    pub compute_device_count: i64,
    /// This many replicas, on CPU:0, CPU:1, ...; the CPU is split into at least as many logical
    /// devices. Not together with `compute_devices`.
    pub cpu_replicas: i64,
    /// The device that holds the variables. NULL: the compute device if there is exactly one, else
    /// CPU:0.
    pub parameter_device: *const c_char,
    /// UMBO_THREAD_BINDING_ON or UMBO_THREAD_BINDING_OFF.
    pub thread_binding: umbo_thread_binding,
    /// What umbo_strategy_cluster_resolver() is to give. NULL: none. The strategy keeps a reference.
    pub cluster_resolver: *const umbo_cluster_resolver,
    /// The size of the stack of each replica's thread, in bytes: 65536 (64 KiB) or more. 0: the size
    /// of the stack of the thread that makes the strategy (for the process's first thread what
    /// `ulimit -s` says, 8 MiB if that is unlimited), at least 2 MiB. Replica 0 usually runs on the
    /// stack of the thread that calls. Below each stack 16 MiB of address space are closed, so that
    /// an array that does not fit ends the process with SIGSEGV.
    pub thread_stack_bytes: usize,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_strategy_options {}

impl Default for umbo_strategy_options {
    fn default() -> Self {
        umbo_strategy_options {
            struct_size: size_of::<Self>(),
            compute_devices: std::ptr::null(),
            compute_device_count: 0,
            cpu_replicas: 0,
            parameter_device: std::ptr::null(),
            thread_binding: UMBO_THREAD_BINDING_ON,
            cluster_resolver: std::ptr::null(),
            thread_stack_bytes: 0,
        }
    }
}

/// Makes a strategy that keeps every variable on one parameter device and replicates callbacks
/// over the compute devices. `options` may be NULL. Starts a thread for each replica but the
/// first, which runs on the thread that calls umbo_strategy_run().
///
/// Device names are taken in every form: "CPU:1", "/cpu:1", "/device:CPU:1" or the full
/// "/job:localhost/replica:0/task:0/device:CPU:1". INVALID_ARGUMENT for an empty list, a duplicate
/// or a name that cannot be read; NOT_FOUND for a device that is not there; UNIMPLEMENTED for a
/// GPU in this version; RESOURCE_EXHAUSTED if a thread cannot be started.
///
/// The strategy is of use in this process. In the child of a fork its values can be read and it can be
/// released; runs, assignments, making variables and umbo_strategy_synchronize() are
/// FAILED_PRECONDITION there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_create(
    options: *const umbo_strategy_options,
    strategy: *mut *mut umbo_strategy,
) -> umbo_status {
    boundary("umbo_strategy_create", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (strategy, options) = unsafe { (out(strategy, "strategy")?, options_from(options)?) };
        strategy.write(make(Strategy::new(&options)?)?);
        Ok(())
    })
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
unsafe fn options_from(pointer: *const umbo_strategy_options) -> Result<Options> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, "options") }?;
    // SAFETY: the caller promises an array of texts, or NULL.
    let names = unsafe {
        array(given.compute_devices, given.compute_device_count, "options.compute_devices")
    }?;
    let names = collect(names.iter().map(|&name| {
        // SAFETY: the caller promises that each name is NULL or a text.
        Ok(unsafe { text(name, "options.compute_devices") }?.to_owned())
    }))?;
    let cpu_replicas = usize::try_from(given.cpu_replicas).map_err(|_| {
        let problem = format!("{}; counts are 0 (not given) or more", given.cpu_replicas);
        Error::invalid("options.cpu_replicas", problem)
    })?;
    // SAFETY: the caller promises NULL or a text.
    let parameter_device =
        unsafe { optional_text(given.parameter_device, "options.parameter_device") }?;
    let bind_threads = match given.thread_binding {
        UMBO_THREAD_BINDING_ON => Some(true),
        UMBO_THREAD_BINDING_OFF => Some(false),
        _ => None,
    };
    Ok(Options {
        compute_devices: (!given.compute_devices.is_null()).then_some(names),
        cpu_replicas,
        parameter_device: parameter_device.map(str::to_owned),
        bind_threads: constant(
            given.thread_binding,
            bind_threads,
            "options.thread_binding",
            "UMBO_THREAD_BINDING_ON (0) and UMBO_THREAD_BINDING_OFF (1)",
        )?,
        stack_bytes: (given.thread_stack_bytes != 0).then_some(given.thread_stack_bytes),
        cluster_resolver: get_optional(given.cluster_resolver, "options.cluster_resolver")?,
    })
}

/// The default strategy, which is current where no other one is: one replica on CPU:0. It cannot
/// be copied and never ends; the handle is released like any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_default_strategy(strategy: *mut *mut umbo_strategy) -> umbo_status {
    boundary("umbo_default_strategy", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let strategy = unsafe { out(strategy, "strategy") }?;
        strategy.write(make(Strategy::default_strategy())?);
        Ok(())
    })
}

/// How many replicas run in sync: gradients are aggregated over this many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_num_replicas_in_sync(
    strategy: *const umbo_strategy,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_strategy_num_replicas_in_sync", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(strategy, "strategy", Strategy::num_replicas)? as i64);
        Ok(())
    })
}

/// The canonical name of the compute device of `replica`. Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_compute_device(
    strategy: *const umbo_strategy,
    replica: i32,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_strategy_compute_device", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(strategy, "strategy", |strategy| {
            let devices = strategy.compute_devices();
            let found = usize::try_from(replica).ok().and_then(|replica| devices.get(replica));
            found.map(|&device| device_name(device)).ok_or_else(|| {
                let problem = format!("{replica} is not in [0, {}), the replicas", devices.len());
                Error::out_of_range("replica", problem)
            })
        })??);
        Ok(())
    })
}

/// The canonical name of the device that holds the variables. Lives as long as the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_parameter_device(
    strategy: *const umbo_strategy,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_strategy_parameter_device", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(strategy, "strategy", |strategy| {
            device_name(strategy.parameter_device())
        })?);
        Ok(())
    })
}

/// Whether replica threads are bound to the processors of their devices.
///
/// @param strategy The strategy.
/// @param thread_binding Gets what it was made with.
/// @return UMBO_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_thread_binding(
    strategy: *const umbo_strategy,
    thread_binding: *mut umbo_thread_binding,
) -> umbo_status {
    boundary("umbo_strategy_thread_binding", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let thread_binding = unsafe { out(thread_binding, "thread_binding") }?;
        let binds = borrow(strategy, "strategy", Strategy::binds_threads)?;
        thread_binding.write(if binds { UMBO_THREAD_BINDING_ON } else { UMBO_THREAD_BINDING_OFF });
        Ok(())
    })
}

/// The size of the stack of each replica's thread, in bytes.
///
/// @param strategy The strategy.
/// @param bytes Gets what it was made with, or where that was 0 the size that was chosen. Threads get
/// whole pages.
/// @return UMBO_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_thread_stack_bytes(
    strategy: *const umbo_strategy,
    bytes: *mut usize,
) -> umbo_status {
    boundary("umbo_strategy_thread_stack_bytes", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let bytes = unsafe { out(bytes, "bytes") }?;
        bytes.write(borrow(strategy, "strategy", Strategy::stack_bytes)?);
        Ok(())
    })
}

/// Whether two handles are of the same strategy: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_same(
    a: *const umbo_strategy,
    b: *const umbo_strategy,
    same: *mut i32,
) -> umbo_status {
    boundary("umbo_strategy_same", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let same = unsafe { out(same, "same") }?;
        let (a, b) = (get(a, "a")?, get(b, "b")?);
        same.write(i32::from(a.is_same(&b)));
        Ok(())
    })
}

/// Whether the variable was made in the scope of this very strategy: 1 or 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_created_variable(
    strategy: *const umbo_strategy,
    variable: *const umbo_variable,
    result: *mut i32,
) -> umbo_status {
    boundary("umbo_strategy_created_variable", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        let (strategy, variable) = (get(strategy, "strategy")?, get(variable, "variable")?);
        result.write(i32::from(variables::created_in_scope(&strategy, &variable)));
        Ok(())
    })
}

/// How many replicas have not come back from the callback of a run that ended without them, by
/// deadline or cancellation. While there are any the strategy is draining: values can be read;
/// runs, assignments and applies give FAILED_PRECONDITION and name the replicas.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_late_replicas(
    strategy: *const umbo_strategy,
    count: *mut i64,
) -> umbo_status {
    boundary_in_need("umbo_strategy_late_replicas", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(get(strategy, "strategy")?.late_replicas().len() as i64);
        Ok(())
    })
}

/// Waits until all work of the strategy is done: late callbacks have come back, and runs of other
/// threads that were under way have ended. FAILED_PRECONDITION in a callback of the strategy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_synchronize(strategy: *mut umbo_strategy) -> umbo_status {
    boundary_in_need("umbo_strategy_synchronize", || get(strategy, "strategy")?.synchronize())
}

/// A metric over all replicas. Start from UMBO_METRIC_INIT. Metrics of several steps are merged by
/// adding sums and weights.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_metric {
    /// sizeof(umbo_metric).
    pub struct_size: usize,
    /// The sum that the replicas added up to, in replica order.
    pub sum: f64,
    /// The sum of the weights.
    pub weight: f64,
    /// sum / weight; NaN if the weight is 0.
    pub mean: f64,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_metric {}

fn unknown_metric(name: &str, known: &Result<Vec<String>>) -> Error {
    let known: Vec<_> = known.iter().flatten().map(|name| format!("'{name}'")).collect();
    let added = match known.as_slice() {
        [] => "none was added".to_owned(),
        names => format!("the metrics are {}", names.join(", ")),
    };
    Error::NotFound(format!(
        "name: no replica added a metric '{name}' in the last run that succeeded; {added}"
    ))
}

/// What the replicas added with umbo_replica_context_add_metric() in the last run that succeeded.
/// NOT_FOUND, with the names that there are, if none of them added a metric of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_metric(
    strategy: *const umbo_strategy,
    name: *const c_char,
    metric: *mut umbo_metric,
) -> umbo_status {
    boundary("umbo_strategy_metric", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (metric, name) = unsafe { (options::out(metric, "metric")?, text(name, "name")?) };
        let found: Option<Metric> = borrow(strategy, "strategy", |strategy| strategy.metric(name))?;
        let found = found.ok_or_else(|| {
            unknown_metric(name, &borrow(strategy, "strategy", |strategy| strategy.metric_names()))
        })?;
        let (sum, weight, mean) = (found.sum, found.weight, found.mean());
        metric.write(umbo_metric { struct_size: size_of::<umbo_metric>(), sum, weight, mean });
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_retain(
    strategy: *const umbo_strategy,
    retained: *mut *mut umbo_strategy,
) -> umbo_status {
    boundary("umbo_strategy_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(strategy, "strategy", retained) }
    })
}

/// Releases a reference. With the last one, and no run under way, the replica threads end before
/// this returns; a thread whose callback is late is left to come back on its own. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_release(strategy: *const umbo_strategy) {
    quietly("umbo_strategy_release", || handle::release(strategy, "strategy"));
}
