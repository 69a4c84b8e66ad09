//! The floating-point mode in which central work is done.
//!
//! A program may have a thread flush denormal numbers to zero, or round otherwise than to the nearest
//! number, and the threads that it makes from then on start with that mode. Which thread does a share
//! of the work must not show in the bits. So every share is done in the mode that processes start with.

/// The control bits of MXCSR, beside the flags of what has happened.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const CONTROL: u32 = 0xffc0;

/// All exceptions masked, rounding to nearest, denormal numbers as they are.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const DEFAULT: u32 = 0x1f80;

/// Runs `body` in the mode that processes start with, and leaves the thread in the mode that it had.
/// (On processors other than x86-64 the mode stays what it is.)
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

/// Goes back to the mode when it is dropped.
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
    // SAFETY: the value is the default or one that the register has had. Compiled code counts on the
    // default, so that all of it that runs between the two calls is right in this mode.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, preserves_flags));
    }
}
