//! Update rules that a program brings along.

use std::borrow::Cow;

use crate::machinery::prelude::*;
use umbo_core::kernels::update::tiles::{MOST_SLOTS, Tile};
use umbo_core::optimizer::Optimizer;
use umbo_core::optimizer::rules::custom::Custom;
use umbo_core::optimizer::rules::{CustomUpdate, Rates, Slot, SlotExtent, WeightDecay};

/// Neighbouring elements of a variable, which a custom rule is to update. Arrays have `count`
/// elements of type `dtype`. Later versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_update_tile {
    /// sizeof(umbo_update_tile), as the library knows it.
    pub struct_size: usize,
    /// UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64.
    pub dtype: umbo_dtype,
    /// How many states there are.
    pub state_count: i32,
    /// How many elements there are, 1 or more.
    pub count: i64,
    /// The position of the first of them in the variable, in row-major order.
    pub first: i64,
    /// Read and written.
    pub weights: *mut c_void,
    /// Summed over replicas and runs, without the loss scale, clipped, and with the weight decay
    /// added unless that is decoupled.
    pub gradient: *const c_void,
    /// Read and written, in the order of umbo_custom_rule_options.
    pub states: *const *mut c_void,
    /// With the factor of the variable's group.
    pub learning_rate: f64,
    /// The weight decay that the rule has to apply itself; 0 unless it is decoupled.
    pub weight_decay: f64,
    /// How often this optimizer has updated the variable before.
    pub step: i64,
}

/// Updates weights and states of some elements, each from its own weight, states and gradient
/// alone.
///
/// @param[in] tile Valid until the function returns.
///
/// Several threads call it at once, on tiles that have nothing in common. With several ranks it
/// runs twice for each element, first on copies of weights and states, and must do the same both
/// times. It cannot fail, because other tiles are changed already. Functions of the library are
/// UMBO_STATUS_FAILED_PRECONDITION here. It runs with the default floating-point settings, which it
/// may not change for good.
pub type umbo_update_tile_fn =
    Option<unsafe extern "C-unwind" fn(tile: *const umbo_update_tile, user_data: *mut c_void)>;

/// A variable that a GPU holds, or those of its rows that have gradients, which a custom rule is to
/// update. Arrays are copies in the GPU's memory, with `count` elements; `states` itself is in host
/// memory. Later versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_gpu_update {
    /// sizeof(umbo_gpu_update), as the library knows it.
    pub struct_size: usize,
    /// As in umbo_update_tile, up to `states`.
    pub dtype: umbo_dtype,
    /// How many states there are.
    pub state_count: i32,
    /// How many elements there are, 1 or more.
    pub count: i64,
    /// Read and written.
    pub weights: *mut c_void,
    /// Read.
    pub gradient: *const c_void,
    /// Read and written.
    pub states: *const *mut c_void,
    /// How many rows of the variable the elements are; 0 if they are all of it.
    pub row_count: i64,
    /// The numbers of these rows, ascending, in memory of the GPU. NULL if they are all of it.
    pub rows: *const i64,
    /// With the factor of the variable's group.
    pub learning_rate: f64,
    /// The weight decay that the rule has to apply itself; 0 unless it is decoupled.
    pub weight_decay: f64,
    /// How often this optimizer has updated the variable before.
    pub step: i64,
    /// The GPU.
    pub device: umbo_device,
    /// The CUstream to queue on; never NULL.
    pub stream: *mut c_void,
}

/// Queues kernels that update weights and states, each from its own weight, states and gradient
/// alone.
///
/// @param[in] update Valid, with `states`, until the function returns; the arrays until the kernels
///   are done.
/// @return UMBO_OK, or why it fails: then the apply, or its step, fails and nothing changes.
///
/// It is called before an apply changes anything, for one variable after the other, with the GPU's
/// primary context current; the library waits for the kernels. Functions of the library, except
/// umbo_set_last_error(), are UMBO_STATUS_FAILED_PRECONDITION here.
pub type umbo_update_on_gpu_fn = Option<
    unsafe extern "C-unwind" fn(
        update: *const umbo_gpu_update,
        user_data: *mut c_void,
    ) -> umbo_status,
>;

/// Options of a custom rule: its state and its GPU function.
#[c_struct(learning_rate = 0.01)]
pub struct umbo_custom_rule_options {
    /// For messages and umbo_optimizer_info. NULL: "custom".
    pub name: *const c_char,
    /// Finite and 0 or more.
    pub learning_rate: f64,
    /// Used where umbo_optimizer_configure() gives none; finite and 0 or more.
    pub weight_decay: f64,
    /// 1: the rule decays weights itself. 0: weight_decay * w is added to the gradient.
    pub decoupled_weight_decay: i32,
    /// How many states the rule keeps for each variable, of its type and shape: 0 to 8.
    pub state_count: i64,
    /// Their names, which differ and are not empty. NULL if there are no states.
    #[counted_by(state_count)]
    pub state_names: *const *const c_char,
    /// The elements of each state before the first update. NULL: all are 0.
    #[counted_by(state_count, optional)]
    pub state_initials: *const f64,
    /// Updates variables that a GPU holds, with the same user data. NULL: to update such a variable
    /// is UMBO_STATUS_UNIMPLEMENTED.
    pub update_on_gpu: umbo_update_on_gpu_fn,
}

/// Makes an optimizer whose rule is a function of the program.
///
/// @param[in] update The rule, called with `user_data` until the optimizer ends.
///
/// All else is as for other rules: gradients are reduced and clipped, and come in tiles of some
/// hundred elements while they are in the cache; row-sparse variables are updated by rows.
#[c_call(
    owned(user_data, destroy),
    out(optimizer),
    options(options),
    present(update)
)]
pub fn umbo_optimizer_create_custom(
    strategy: *const umbo_strategy,
    update: umbo_update_tile_fn,
    user_data: *mut c_void,
    destroy: umbo_destroy_fn,
    options: *const umbo_custom_rule_options,
    optimizer: *mut *mut umbo_optimizer,
) {
    // SAFETY: the caller keeps the header's promise on pointers.
    let (name, slots) = unsafe {
        (
            optional_text(options.name, "options.name")?,
            slots(&options)?,
        )
    };
    let meaning = match flag(
        options.decoupled_weight_decay,
        "options.decoupled_weight_decay",
    )? {
        true => WeightDecay::Decoupled,
        false => WeightDecay::L2,
    };
    let user_data = Arc::new(user_data);
    let on_gpu = options.update_on_gpu.map(|update| {
        let user_data = Arc::clone(&user_data);
        move |tile: &CustomUpdate<'_>| {
            let update_for_c = gpu_update_for_c(tile);
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
        // SAFETY: the caller gave the function for this, with the user data that lives as long as
        // this closure; the tile's elements are this call's.
        callback::run_rule(|| unsafe { update(&raw const tile, user_data.pointer()) });
    };
    let name = name.unwrap_or("custom").to_owned();
    let call = Box::new(call);
    let on_gpu = on_gpu.map(|on_gpu| Box::new(on_gpu) as _);
    let rule = Custom::new(name, slots, options.weight_decay, meaning, call, on_gpu)?;
    let strategy = get(strategy, "strategy")?.id();
    optimizer.write(make(Optimizer::new(
        strategy,
        Box::new(rule),
        options.learning_rate,
    )?)?);
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

fn gpu_update_for_c(tile: &CustomUpdate<'_>) -> umbo_gpu_update {
    let (rows, row_count) = tile.rows.unwrap_or((0, 0));
    umbo_gpu_update {
        struct_size: size_of::<umbo_gpu_update>(),
        dtype: tile.dtype.to_c(),
        state_count: tile.slots.len() as i32,
        count: tile.elements as i64,
        weights: tile.weights as *mut c_void,
        gradient: tile.gradient as *const c_void,
        states: tile.slots.as_ptr().cast(),
        row_count: row_count as i64,
        rows: rows as *const i64,
        learning_rate: tile.rates.learning_rate,
        weight_decay: tile.rates.weight_decay,
        step: tile.step as i64,
        device: device_of(tile.device),
        stream: tile.stream,
    }
}

/// # Safety
/// The arrays of the options are as the header says.
unsafe fn slots(options: &umbo_custom_rule_options) -> Result<Vec<Slot>> {
    // Before the names are looked at: a number beyond this is not one of names.
    if !usize::try_from(options.state_count).is_ok_and(|count| count <= MOST_SLOTS) {
        let problem = format!(
            "{}; a rule has 0 to {MOST_SLOTS} states",
            options.state_count
        );
        return Err(Error::invalid("options.state_count", problem));
    }
    let count = Count::new(options.state_count, "options.state_count");
    // SAFETY: the caller's promise is the same, and there are as many numbers as names.
    let (names, initials) = unsafe {
        let names = array(options.state_names, count, "options.state_names")?;
        (
            names,
            optional_array(options.state_initials, count, "options.state_initials")?,
        )
    };
    let slots = names.iter().enumerate().map(|(position, &name)| {
        check(name, "options.state_names", "a name is expected")?;
        // SAFETY: the caller promises that each name is a text; NULL was refused.
        let name = unsafe { text(name, "options.state_names") }?.to_owned();
        let initial = initials.map_or(0.0, |initials| initials[position]);
        Ok(Slot {
            name: Cow::Owned(name),
            initial,
            extent: SlotExtent::Elements,
        })
    });
    collect(slots, "options.state_names")
}
