//! A steady step allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use umbo::optimizer::GradientMode::Add;
use umbo::optimizer::LossReduction::Mean;
use umbo::strategy::commit::StepParticipant;

use crate::setup::*;

/// The system's allocator, counting the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending may allocate when its counter is gone.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; `memory` came from `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steady_step_allocates_nothing() {
    for rule in RULES {
        let (a, b) = (variable("a", &[1.0f32; 40_000]), variable("b", &[1.0f64; 3]));
        let gradients = gradients(3, &[&a, &b], Mean);
        let optimizer = optimizer(rule, 0.5);
        let step = |number: u64| {
            gradients.first_touch(number);
            for replica in 0..3 {
                for index in 0..2 {
                    gradients.view(replica, number, index, Add).unwrap();
                }
                gradients.submit(replica, number, 1.0).unwrap();
            }
            gradients.commit(number);
            apply(&Arc::clone(&optimizer), &gradients).unwrap();
        };
        step(1);
        let before = ALLOCATIONS.get();
        step(2);
        step(3);
        assert_eq!(ALLOCATIONS.get(), before, "{rule}");
    }
}
