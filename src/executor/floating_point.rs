//! The floating-point mode in which central work is done.
//!
//! A program may make a thread flush denormal numbers to zero, or round in another direction than to the nearest
//! number. Threads that it starts later begin with that mode. The bits of a result must not depend on which thread does
//! a part of the work. So every part is done in the mode in which processes start.

/// The control bits of MXCSR. Its other bits are flags of past exceptions.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const CONTROL: u32 = 0xffc0;

/// The default mode: all exceptions are masked, rounding is to the nearest number, and denormal numbers are kept.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const DEFAULT: u32 = 0x1f80;

/// Runs `body` in the mode in which processes start, and then restores the thread's mode. (On processors other than
/// x86-64 the mode is not changed.)
#[inline]
pub(super) fn in_default_mode<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let _restored = {
        let mode = mode();
        (mode & CONTROL != DEFAULT).then(|| {
            set_mode(DEFAULT);
            Restored(mode)
        })
    };
    body()
}

/// Restores the mode when it is dropped.
#[cfg(all(target_arch = "x86_64", not(miri)))]
struct Restored(u32);

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Drop for Restored {
    fn drop(&mut self) {
        set_mode(self.0);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn mode() -> u32 {
    let mut mode = 0u32;
    // SAFETY: every x86-64 processor has the register, and it is stored to a variable.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack, preserves_flags));
    }
    mode
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn set_mode(mode: u32) {
    // SAFETY: the value is the default or one that the register has had. Compiled code assumes the default, so all code
    // that runs between the two calls is correct in this mode.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags));
    }
}
