//! The number of replicas with which steps are fastest, for loops that make their strategies
//! themselves.

use crate::machinery::prelude::*;
use umbo_core::observe::log::{self, Level};
use umbo_core::strategy::setup::options::MAX_REPLICAS;
use umbo_core::training::replica_choice::{Next, STEPS, Tried, by_times, text};

/// The numbers that were tried, and the consequence.
fn by_checked_times(first_count: i64, seconds: &[f64]) -> Result<(Vec<Tried>, Next)> {
    if !(1..=MAX_REPLICAS as i64).contains(&first_count) {
        return Err(invalid!(
            "first_count",
            "{}; 1 to {MAX_REPLICAS} replicas are possible",
            described(first_count)
        ));
    }
    let is_wrong = |time: &f64| !(time.is_finite() && *time >= 0.0);
    if let Some(step) = seconds.iter().position(is_wrong) {
        let time = seconds[step];
        return Err(invalid!(
            "seconds",
            "element {step} is {time}; the time of a step is finite and at least 0"
        ));
    }
    Ok(by_times(first_count as u64, seconds))
}

/// Says how many replicas the next step is to have, by the times of those before: the rule of
/// trainers with `replicas` UMBO_AUTO, for loops that make their strategies themselves.
///
/// @param[in] first_count The number of replicas of the first steps, usually one for each
///   processor; 1 to 1024.
/// @param[in] step_count How many steps were taken.
/// @param[in] seconds Their times, in order, each finite and 0 or more. `seconds` may be NULL if
///   there are none.
/// @param[out] replica_count `first_count` or a divisor of it.
/// @param[out] is_chosen 1: this number stays; the log says so, as information, after the step that
///   decides. 0: it is tried. `is_chosen` may be NULL.
///
/// With each number 48 steps are taken, of which the median counts. While fewer replicas are faster
/// by 3 %, the next smaller divisor is tried; the fastest of all that were tried stays.
#[c_call(
    out(replica_count),
    optional_out(is_chosen),
    array(seconds, step_count)
)]
pub fn umbo_replica_choice_count(
    first_count: i64,
    step_count: i64,
    seconds: *const f64,
    replica_count: *mut i64,
    is_chosen: *mut i32,
) {
    let (tried, next) = by_checked_times(first_count, seconds)?;
    let (count, stays) = match next {
        Next::Try(count) => (count, false),
        Next::Keep(count) => (count, true),
    };
    if stays && !tried.is_empty() && seconds.len() == tried.len() * STEPS {
        log::log(Level::Info, || {
            format!("the training continues with {}", text(&tried, next))
        });
    }
    replica_count.write(count as i64);
    is_chosen.write(i32::from(stays));
}

/// Writes what was tried and the result, such as "1 replica: a step takes 2.00 ms with 2
/// replicas, 1.00 ms with 1 replica".
///
/// @param[out] buffer The text. `buffer` may be NULL if `capacity` is 0.
///
/// The other parameters are those of umbo_replica_choice_count().
#[c_call(out(length), array(seconds, step_count), buffer(buffer, capacity))]
pub fn umbo_replica_choice_text(
    first_count: i64,
    step_count: i64,
    seconds: *const f64,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let (tried, next) = by_checked_times(first_count, seconds)?;
    buffer.write(&text(&tried, next), length)
}
