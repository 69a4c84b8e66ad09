//! Random numbers that follow from keys: `umbo/random.h`.

use std::mem::MaybeUninit;

use crate::machinery::pointers;
use crate::machinery::prelude::*;
use umbo_core::values::random::{Chance, RandomKey};

/// Runs an expression in which `$number` stands for the Rust type of random numbers.
macro_rules! for_floats {
    ($dtype:expr, $number:ident => $body:expr) => {
        match $dtype {
            DType::Float32 => {
                type $number = f32;
                $body
            }
            DType::Float64 => {
                type $number = f64;
                $body
            }
            other => return Err(invalid!("dtype", "{other}; float32 or float64 are drawn")),
        }
    };
}
/// The key from which random numbers follow. umbo_replica_context_random_key() fills it.
#[c_struct]
pub struct umbo_random_key {
    /// The seed of the training.
    pub seed: u64,
    /// The number of one use within a step: another one for each layer, or purpose.
    pub stream: u64,
    /// The number of the step: each run of the strategy is one, also one that only evaluates, but
    /// not those of umbo_trainer_evaluate().
    pub step: i64,
    /// The number of the first example in the global batch.
    pub first_example: i64,
}

/// Gets the key of the examples that this replica has in this step.
///
/// @return UMBO_STATUS_FAILED_PRECONDITION: there are several replicas, and the run's arguments
///   have no per-replica value, so that `first_example` is not known: fill in a key by hand.
#[c_call(result(key), borrow(ctx))]
pub fn umbo_replica_context_random_key(
    ctx: *const umbo_replica_context,
    seed: u64,
    stream: u64,
    key: *mut umbo_random_key,
) {
    let batch = ctx.batch_position();
    if batch.local_examples.is_none() && ctx.strategy().num_replicas_in_sync() > 1 {
        return Err(Error::precondition(
            "the position of this replica's examples is not known, since the run's arguments have \
             no per-replica value, and all replicas would draw the same numbers; pass a \
             distributed batch, or fill in a umbo_random_key",
        ));
    }
    key.write(umbo_random_key {
        seed,
        stream,
        step: ctx.step_number() as i64,
        first_example: batch.first_example as i64,
        ..Default::default()
    });
}

/// Draws uniform numbers from 0 to 1, without 1 itself.
///
/// @param[in] example_count The number of examples, from `key->first_example` on.
/// @param[in] count The count of numbers for each example.
/// @param[in] dtype UMBO_DTYPE_FLOAT32, for 24 random bits, or UMBO_DTYPE_FLOAT64, for 53.
/// @param[out] numbers Host memory for `example_count` rows of `count` numbers. `numbers` may be
///   NULL if there are none.
#[c_call(structure(key), natural(example_count), natural(count), dtype(dtype))]
pub fn umbo_random_uniform(
    key: *const umbo_random_key,
    example_count: i64,
    count: i64,
    dtype: umbo_dtype,
    numbers: *mut c_void,
) {
    // SAFETY: the caller promises memory for as many numbers of this type.
    for_floats!(dtype, T => unsafe {
        core(&key)?.uniform::<T>(count, memory(numbers, example_count, count)?);
    });
}

/// Draws standard normal numbers: of mean 0 and variance 1.
///
/// @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
#[c_call(structure(key), natural(example_count), natural(count), dtype(dtype))]
pub fn umbo_random_normal(
    key: *const umbo_random_key,
    example_count: i64,
    count: i64,
    dtype: umbo_dtype,
    numbers: *mut c_void,
) {
    // SAFETY: the caller promises memory for as many numbers of this type.
    for_floats!(dtype, T => unsafe {
        core(&key)?.normal::<T>(count, memory(numbers, example_count, count)?);
    });
}

/// Draws `value` with a probability, else 0. A dropout of rate p has the probability 1 - p and the
/// value 1 / (1 - p).
///
/// @param[in] probability From 0 to 1. It is kept to 32 binary digits.
/// @param[in] value Finite.
/// @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
#[c_call(structure(key), natural(example_count), natural(count), dtype(dtype))]
pub fn umbo_random_bernoulli(
    key: *const umbo_random_key,
    probability: f64,
    value: f64,
    example_count: i64,
    count: i64,
    dtype: umbo_dtype,
    numbers: *mut c_void,
) {
    // SAFETY: the caller promises memory for as many numbers of this type.
    for_floats!(dtype, T => unsafe {
        let numbers = memory(numbers, example_count, count)?;
        core(&key)?.bernoulli::<T>(Chance { probability, value }, count, numbers)?;
    });
}

/// Draws integers from 0 to `bound` less one, all with the same probability.
///
/// @param[in] bound 1 or more.
/// @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
#[c_call(structure(key), natural(example_count), natural(count))]
pub fn umbo_random_integers(
    key: *const umbo_random_key,
    bound: i64,
    example_count: i64,
    count: i64,
    numbers: *mut i64,
) {
    let bound = positive(bound, "bound")?;
    // SAFETY: the caller promises memory for as many numbers.
    let numbers = unsafe { memory(numbers.cast(), example_count, count) }?;
    core(&key)?.integers(bound, count, numbers)?;
}

fn core(key: &umbo_random_key) -> Result<RandomKey> {
    Ok(RandomKey {
        seed: key.seed,
        stream: key.stream,
        step: natural(key.step, "key.step")?,
        first_example: natural(key.first_example, "key.first_example")?,
    })
}

/// The memory for rows of numbers: how many, and how many numbers each has.
///
/// # Safety
/// It is NULL or memory for as many numbers, which nobody else uses as long as the slice lives.
unsafe fn memory<'a, T>(
    numbers: *mut c_void,
    rows: usize,
    width: usize,
) -> Result<&'a mut [MaybeUninit<T>]> {
    let most = isize::MAX as usize / size_of::<T>();
    let all = rows.checked_mul(width).filter(|&all| all <= most);
    let all = all.ok_or_else(|| {
        invalid!(
            "example_count",
            "{rows}, each with a count of {width} numbers; no memory holds as many"
        )
    })?;
    if all == 0 {
        return Ok(&mut []);
    }
    let numbers = numbers.cast::<MaybeUninit<T>>();
    pointers::check(numbers, "numbers", "memory for all numbers is expected")?;
    // SAFETY: the pointer is neither null nor misaligned, and the caller promises the memory.
    Ok(unsafe { std::slice::from_raw_parts_mut(numbers, all) })
}
