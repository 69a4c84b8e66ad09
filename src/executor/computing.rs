//! Heavy computations that wait for nobody, shared with threads that are there for one call.
//!
//! Here belongs what takes milliseconds or more, stands beside steps and not in them, and depends on
//! its arguments alone: comparing gradients, widening them, decompressing files. What microseconds
//! count for is done by [`super::workers`]; what may wait, for the caller's functions above all, by
//! [`super::pool`].
//!
//! The calling thread takes part, so that the work is done where the system has no other thread, too. Results do
//! not depend on who computes them: everything is computed in the floating-point mode that processes start with,
//! and results are in the order of the items.

use std::ops::Range;
use std::panic::resume_unwind;

use super::affinity;
use super::floating_point::in_default_mode;
use super::thread::spawn_scoped;
use parking_lot::Mutex;

/// A range of fewer elements is not worth another thread's attention.
const LEAST_ELEMENTS: usize = 16 << 10;

/// The most ranges that elements are cut into, so that what is kept of each is little.
const MOST_RANGES: usize = 256;

/// The results of `function` for the elements `0..elements`, cut into at most 256 ranges of some ten
/// thousand elements or more each, in the order of the ranges. The cuts depend on `elements` alone.
/// `function` and what it returns are small. Blocks until all is done. A panic of `function` reaches the caller.
pub fn map_ranges<R: Send>(elements: usize, function: impl Fn(Range<usize>) -> R + Sync) -> Vec<R> {
    let each = elements_per_range(elements);
    let range = |index: usize| index * each..elements.min((index + 1) * each);
    share((0..elements.div_ceil(each)).map(range), function)
}

/// Calls `function` with consecutive parts of `elements` and where each begins. As [`map_ranges`] in
/// all else.
pub fn for_each_part<T: Send>(elements: &mut [T], function: impl Fn(usize, &mut [T]) + Sync) {
    let each = elements_per_range(elements.len());
    let parts = elements.chunks_mut(each).enumerate();
    share(parts, |(index, part)| function(index * each, part));
}

/// Calls `function` with each of `items`, `least` or more of them at a time. As [`map_ranges`] in all else.
pub fn for_each<T: Send>(items: &mut [T], least: usize, function: impl Fn(&mut T) + Sync) {
    share(items.chunks_mut(least), |items| items.iter_mut().for_each(&function));
}

/// The results of `function` for each of `items`, in their order. `size` says how many elements, or
/// bytes, there are to compute with in all of them; for few no other thread is asked. Blocks until all is done. A
/// panic of `function` reaches the caller.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    size: usize,
    function: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    match size < LEAST_ELEMENTS {
        true => in_default_mode(|| items.iter().map(function).collect()),
        false => share(items.iter(), function),
    }
}

fn elements_per_range(elements: usize) -> usize {
    elements.div_ceil(MOST_RANGES).max(LEAST_ELEMENTS)
}

/// The results of `function` for all tasks, in their order. Each thread takes the next task when it has done one.
fn share<T: Send, R: Send>(
    tasks: impl ExactSizeIterator<Item = T> + Send,
    function: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = affinity::process_processors().count().min(tasks.len()).min(MOST_RANGES);
    let tasks = Mutex::new(tasks.enumerate());
    let next = || tasks.lock().next();
    let take = || next().map(|(index, task)| (index, function(task)));
    let work = || in_default_mode(|| std::iter::from_fn(take).collect::<Vec<_>>());
    let mut results = std::thread::scope(|scope| {
        let others = 1..threads;
        let others = others.map_while(|_| spawn_scoped(scope, "umbo-compute", work).ok());
        let others: Vec<_> = others.collect();
        let mut results = work();
        for thread in others {
            results.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_elements_there_are_the_ranges_are_few() {
        for elements in [0, 1, LEAST_ELEMENTS, LEAST_ELEMENTS + 1, 1 << 30, usize::MAX / 2] {
            let each = elements_per_range(elements);
            assert!(each >= LEAST_ELEMENTS && elements.div_ceil(each) <= MOST_RANGES);
        }
        assert!(map_ranges(0, |range| range).is_empty());
        for_each_part(&mut [] as &mut [u8], |_, _| unreachable!());
    }
}
