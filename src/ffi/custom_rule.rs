//! Update rules that a program brings along.

use std::borrow::Cow;

use super::prelude::*;
use crate::kernels::update::tiles::{MOST_SLOTS, Tile};
use crate::optimizer::Optimizer;
use crate::optimizer::custom::Custom;
use crate::optimizer::custom_kernels::CustomUpdate;
use crate::optimizer::rule::{Rates, Slot, WeightDecay};

/// Some neighbouring elements of a variable that a rule of the program's is to update. All arrays have
/// `count` elements of type `dtype`, which is the variable's. It is filled by the library; later versions
/// may add fields at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_update_tile {
    /// sizeof(umbo_update_tile), as the library knows it.
    pub struct_size: usize,
    /// The type of weights, gradient and states: UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64.
    pub dtype: umbo_dtype,
    /// How many states there are.
    pub state_count: i32,
    /// How many elements there are, 1 or more.
    pub count: i64,
    /// The number of the first of them among the variable's, in row-major order.
    pub first: i64,
    /// The weights, to be read and written.
    pub weights: *mut c_void,
    /// The gradient: summed over replicas and runs, without the loss scale, clipped, and with the weight
    /// decay added unless that is decoupled.
    pub gradient: *const c_void,
    /// The states, to be read and written, in the order of umbo_custom_rule_options.
    pub states: *const *mut c_void,
    /// The learning rate, with the factor of the variable's group.
    pub learning_rate: f64,
    /// The weight decay that the rule has to do itself; 0 unless it is decoupled.
    pub weight_decay: f64,
    /// How many updates of this variable came before, by this optimizer.
    pub step: i64,
}

/// Updates weights and states of some elements, each from its own weight, states and gradient alone.
///
/// @param[in] tile The elements. It and its arrays are valid until the function returns.
/// @param[in] user_data What was given to umbo_optimizer_create_custom().
///
/// It is called in the pass that reduces the gradients, by several threads at once, on tiles that have nothing
/// in common, in any order. With several ranks each calls it for its part of a variable, twice for each
/// element: what it makes of copies of the states is what the ranks exchange, and once they have agreed it is
/// done with the states themselves. So it must come to the same both times. It cannot fail, since other tiles
/// are changed already: a rule checks its settings before it makes the optimizer. Functions of this library are
/// UMBO_STATUS_FAILED_PRECONDITION here.
pub type umbo_update_tile_fn =
    Option<unsafe extern "C-unwind" fn(tile: *const umbo_update_tile, user_data: *mut c_void)>;

/// What a rule of the program's is to compute on a GPU: new weights and states of a variable that the GPU
/// holds, or of those of its rows that have gradients. All arrays but `states` itself are memory of the
/// GPU and this call's alone. Weights, gradient and each state have `count` elements of type `dtype`. It is
/// filled by the library; later versions may add fields at the end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_gpu_update {
    /// sizeof(umbo_gpu_update), as the library knows it.
    pub struct_size: usize,
    /// The type of weights, gradient and states: UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64.
    pub dtype: umbo_dtype,
    /// How many states there are.
    pub state_count: i32,
    /// How many elements there are, 1 or more.
    pub count: i64,
    /// The weights, to be read and written.
    pub weights: *mut c_void,
    /// The gradient, as umbo_update_tile has it.
    pub gradient: *const c_void,
    /// The states, to be read and written, in the order of umbo_custom_rule_options.
    pub states: *const *mut c_void,
    /// How many rows of the variable the elements are; 0 if they are all of it.
    pub row_count: i64,
    /// The numbers of these rows, `row_count` of them, which ascend, in memory of the GPU. NULL if the
    /// elements are all of the variable.
    pub rows: *const i64,
    /// The learning rate, with the factor of the variable's group.
    pub learning_rate: f64,
    /// The weight decay that the rule has to do itself; 0 unless it is decoupled.
    pub weight_decay: f64,
    /// How many updates of this variable came before, by this optimizer.
    pub step: i64,
    /// The GPU.
    pub device: umbo_device,
    /// The CUstream on which everything has to be queued; never NULL.
    pub stream: *mut c_void,
}

/// Queues kernels that update weights and states on a GPU, each element from its own weight, states and
/// gradient alone.
///
/// @param[in] update What is to be computed, and the stream on which to queue. The struct and its list
///   `states` are valid until the function returns, the arrays until the kernels are done.
/// @param[in] user_data What was given to umbo_optimizer_create_custom().
/// @return UMBO_OK, or why it fails. Any other status than UMBO_OK fails the apply, or the step that it
///   belongs to, and nothing has changed.
///
/// It is called when an apply is about to begin, for one variable after the other, on the thread that
/// applies, with the GPU's primary context current. The arrays are copies: what it computes counts only once
/// it has returned UMBO_OK for all variables and its kernels are done, for which the library waits. Functions
/// of this library, but for umbo_set_last_error(), are UMBO_STATUS_FAILED_PRECONDITION here.
pub type umbo_update_on_gpu_fn = Option<
    unsafe extern "C-unwind" fn(
        update: *const umbo_gpu_update,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// What a rule of the program's keeps, and what it does on GPUs. Start from UMBO_CUSTOM_RULE_OPTIONS_INIT.
#[c_struct(learning_rate = 0.01)]
#[repr(C)]
pub struct umbo_custom_rule_options {
    /// sizeof(umbo_custom_rule_options).
    pub struct_size: usize,
    /// The name of the rule, for messages and umbo_optimizer_rule(). NULL: "custom".
    pub name: *const c_char,
    /// The learning rate; finite and 0 or more. By default 0.01.
    pub learning_rate: f64,
    /// The weight decay where umbo_optimizer_configure() gives none; finite and 0 or more. By default 0.
    pub weight_decay: f64,
    /// 1: the rule decays weights itself, by the number that it finds in the tile. 0, the default:
    /// weight_decay * w is added to the gradient.
    pub decoupled_weight_decay: i32,
    /// How many states the rule keeps for each variable, of the variable's type and shape: 0 to 8. By
    /// default 0.
    pub state_count: i64,
    /// Their names, which differ and are copied: an array of `state_count`. NULL if there are no states.
    pub state_names: *const *const c_char,
    /// What every element of each state is before the first update: an array of `state_count`, which is
    /// copied. NULL: all are 0.
    pub state_initials: *const f64,
    /// What updates variables that a GPU holds; it gets the same user data as the rule. NULL: such
    /// variables cannot be updated, which is UMBO_STATUS_UNIMPLEMENTED when they are.
    pub update_on_gpu: umbo_update_on_gpu_fn,
}

/// Makes an optimizer whose rule is a function of the program's.
///
/// @param[in] strategy The strategy, whose variables the optimizer updates.
/// @param[in] update The rule. It is called until the optimizer is gone.
/// @param[in] user_data What `update` and `update_on_gpu` of the options are given.
/// @param[in] destroy Releases `user_data`, exactly once, on any thread, when the optimizer is gone, and also
///   if this function fails. NULL: nothing to release.
/// @param[in] options What the rule keeps, and what it does where a GPU holds the variables; `options` may be
///   NULL: all defaults.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, or a name of a state
///   that is empty or appears twice.
///
/// All else is as for the rules that there are: gradients of replicas and of several runs are reduced, also
/// those of 16 bits, clipped, and handed to `update` in tiles of some hundred elements while they are in the
/// cache. Groups, schedules, loss scales and low-precision copies act. Row-sparse variables are updated by
/// rows. umbo_optimizer_state() reads the states.
#[c_call(gives(user_data, destroy), out(optimizer), options(options), present(update))]
pub fn umbo_optimizer_create_custom(
    strategy: *mut umbo_strategy,
    update: umbo_update_tile_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_custom_rule_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let (name, slots) = unsafe { (optional_text(options.name, "options.name")?, slots(&options)?) };
    let meaning = match flag(options.decoupled_weight_decay, "options.decoupled_weight_decay")? {
        true => WeightDecay::Decoupled,
        false => WeightDecay::L2,
    };
    let user_data = Arc::new(user_data);
    let on_gpu = options.update_on_gpu.map(|update| {
        let user_data = Arc::clone(&user_data);
        move |own: &CustomUpdate<'_>| {
            let update_for_c = gpu_update_for_c(own);
            callback::run(|| {
                let mut returned = UMBO_OK;
                callback::run_rule(|| {
                    // SAFETY: as below; the addresses are this call's until its kernels are done.
                    returned = unsafe { update(&raw const update_for_c, user_data.pointer()) };
                });
                returned
            })
        }
    });
    let call = move |tile: &Tile<'_>, rates: &Rates, step: u64| {
        let tile = tile_for_c(tile, rates, step);
        // SAFETY: the caller gave the function for this, with the user data that lives as long as this
        // closure; the tile's elements are this call's.
        callback::run_rule(|| unsafe { update(&raw const tile, user_data.pointer()) });
    };
    let name = name.unwrap_or("custom").to_owned();
    let mut rule = Custom::new(name, slots, options.weight_decay, meaning, Box::new(call))?;
    if let Some(on_gpu) = on_gpu {
        rule = rule.with_updates_on_gpus(Box::new(on_gpu));
    }
    let strategy = get(strategy, "strategy")?.id();
    optimizer.write(make(Optimizer::new(strategy, Box::new(rule), options.learning_rate)?)?);
}

fn tile_for_c(tile: &Tile<'_>, rates: &Rates, step: u64) -> umbo_update_tile {
    umbo_update_tile {
        struct_size: size_of::<umbo_update_tile>(),
        dtype: tile.dtype.to_c(),
        state_count: tile.slots.len() as i32,
        count: tile.elements as i64,
        first: tile.start as i64,
        weights: tile.weights.cast(),
        gradient: tile.gradient.cast(),
        states: tile.slots.as_ptr().cast(),
        learning_rate: rates.learning_rate,
        weight_decay: rates.weight_decay,
        step: step as i64,
    }
}

fn gpu_update_for_c(own: &CustomUpdate<'_>) -> umbo_gpu_update {
    let (rows, row_count) = own.rows.unwrap_or((0, 0));
    umbo_gpu_update {
        struct_size: size_of::<umbo_gpu_update>(),
        dtype: own.dtype.to_c(),
        state_count: own.slots.len() as i32,
        count: own.elements as i64,
        weights: own.weights as *mut c_void,
        gradient: own.gradient as *const c_void,
        states: own.slots.as_ptr().cast(),
        row_count: row_count as i64,
        rows: rows as *const i64,
        learning_rate: own.rates.learning_rate,
        weight_decay: own.rates.weight_decay,
        step: own.step as i64,
        device: device_of(own.device),
        stream: own.stream,
    }
}

/// # Safety
/// The arrays of the options are as the header says.
unsafe fn slots(options: &umbo_custom_rule_options) -> Result<Vec<Slot>> {
    // Before the names are looked at: a number beyond this is not one of names.
    if !usize::try_from(options.state_count).is_ok_and(|count| count <= MOST_SLOTS) {
        let problem = format!("{}; a rule has 0 to {MOST_SLOTS} states", options.state_count);
        return Err(Error::invalid("options.state_count", problem));
    }
    let count = (options.state_count, "options.state_count");
    // SAFETY: the caller's promise is the same, and there are as many numbers as names.
    let (names, initials) = unsafe {
        let names = array(options.state_names, count, "options.state_names")?;
        (names, optional_array(options.state_initials, count, "options.state_initials")?)
    };
    collect(names.iter().enumerate().map(|(position, &name)| {
        check(name, "options.state_names", "a name is expected")?;
        // SAFETY: the caller promises that each name is a text; NULL was refused.
        let name = unsafe { text(name, "options.state_names") }?.to_owned();
        let initial = initials.map_or(0.0, |initials| initials[position]);
        Ok(Slot { name: Cow::Owned(name), initial })
    }))
}
