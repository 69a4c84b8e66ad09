//! The floating-point mode of the library's code.
//!
//! A program may make a thread flush denormal numbers to zero, round in a direction other than to
//! the nearest number, or raise a signal where a result is not a number. The bits of a result must
//! depend neither on that nor on which thread does a part of the work. So all code of the library
//! runs in the mode in which processes start:
//!
//! - The C layer enters the library through [`in_library`], which restores the program's mode at
//!   the end.
//! - The library calls the program's functions, and loads other libraries, through [`in_program`]:
//!   they run in the mode of the program, and what they change of it persists.
//! - A thread of the library runs in [`InheritedMode::run`]. Its own code runs in the default mode,
//!   and the program's functions there begin with the mode of the thread that started it, as on
//!   threads of the program.
//! - An update rule of the program's computes a part of a result, on whichever thread is free, so
//!   it runs in the default mode ([`in_default_mode`]).
//!
//! The mode is the control register of the processor's vector unit: MXCSR on x86-64, where the
//! library's code does not use the older floating-point unit, and FPCR on AArch64. On other
//! processors nothing is changed.

use std::cell::Cell;

use register::{CONTROL, DEFAULT, mode, set_mode};

/// In place of a mode: this thread runs code of the program.
const NONE: u64 = u64::MAX;

thread_local! {
    /// The mode in which the program's functions run on this thread, while it runs code of the
    /// library.
    static PROGRAMS: Cell<u64> = const { Cell::new(NONE) };
}

#[inline]
fn is_default(mode: u64) -> bool {
    mode & CONTROL == DEFAULT
}

/// Runs `body`, which is code of the library that the program calls. The program's mode is restored
/// at the end; it is the one that the thread had, or what the program's functions have made of it
/// meanwhile.
#[inline]
pub fn in_library<R>(body: impl FnOnce() -> R) -> R {
    struct Leave(u64);
    impl Drop for Leave {
        #[inline]
        fn drop(&mut self) {
            let mode = PROGRAMS.replace(self.0);
            if !is_default(mode) {
                set_mode(mode);
            }
        }
    }
    let mode = mode();
    let _leave = Leave(PROGRAMS.replace(mode));
    if !is_default(mode) {
        set_mode(DEFAULT);
    }
    body()
}

/// Runs `call`, which is code of the program that the library calls, in the program's mode. Where
/// the thread is in no code of the library's, for example at its end, the mode is the program's
/// already.
#[inline]
pub fn in_program<R>(call: impl FnOnce() -> R) -> R {
    struct Return;
    impl Drop for Return {
        #[inline]
        fn drop(&mut self) {
            let mode = mode();
            PROGRAMS.set(mode);
            if !is_default(mode) {
                set_mode(DEFAULT);
            }
        }
    }
    let mode = PROGRAMS.replace(NONE);
    if mode == NONE {
        return call();
    }
    if !is_default(mode) {
        set_mode(mode);
    }
    let _return = Return;
    call()
}

/// Runs `body` in the default mode, and then restores the mode of before, whatever `body` has made
/// of it.
#[inline]
pub fn in_default_mode<R>(body: impl FnOnce() -> R) -> R {
    struct Restore(u64);
    impl Drop for Restore {
        #[inline]
        fn drop(&mut self) {
            if mode() & CONTROL != self.0 & CONTROL {
                set_mode(self.0);
            }
        }
    }
    let mode = mode();
    let _restore = Restore(mode);
    if !is_default(mode) {
        set_mode(DEFAULT);
    }
    body()
}

/// The mode of the program that a thread of the library begins with.
#[derive(Clone, Copy)]
pub(super) struct InheritedMode(u64);

impl InheritedMode {
    /// The mode of the calling thread.
    pub(super) fn of_this_thread() -> InheritedMode {
        let programs = PROGRAMS.get();
        InheritedMode(if programs == NONE { mode() } else { programs } & CONTROL)
    }

    /// Runs `body`, which is all that the calling thread, one of the library's, does. What the
    /// program has for the end of the thread (destructors of thread-specific data) then finds
    /// the program's mode.
    pub(super) fn run<R>(self, body: impl FnOnce() -> R) -> R {
        set_mode(self.0);
        in_library(body)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod register {
    /// The control bits of MXCSR. Its other bits are flags of past exceptions.
    pub(super) const CONTROL: u64 = 0xffc0;

    /// All exceptions are masked, rounding is to the nearest number, and denormal numbers are kept.
    pub(super) const DEFAULT: u64 = 0x1f80;

    #[inline]
    pub(super) fn mode() -> u64 {
        let mut mode = 0u32;
        // SAFETY: every x86-64 processor has the register, and it is stored to a variable.
        unsafe {
            std::arch::asm!(
                "stmxcsr [{}]",
                in(reg) &raw mut mode,
                options(nostack, preserves_flags)
            );
        }
        mode.into()
    }

    #[inline]
    pub(super) fn set_mode(mode: u64) {
        let mode = mode as u32;
        // SAFETY: the value is the default or one that the register has had. Compiled code assumes
        // the default, and all code of the library runs in this mode; the program's code
        // runs in the mode that it has chosen itself.
        unsafe {
            std::arch::asm!(
                "ldmxcsr [{}]",
                in(reg) &raw const mode,
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod register {
    /// FPCR holds control bits alone; the flags of past exceptions have a register of their own.
    pub(super) const CONTROL: u64 = u64::MAX >> 1;

    /// No exception is trapped, rounding is to the nearest number, and denormal numbers are kept.
    pub(super) const DEFAULT: u64 = 0;

    #[inline]
    pub(super) fn mode() -> u64 {
        let mode: u64;
        // SAFETY: every AArch64 processor has the register, and reading it changes nothing.
        unsafe {
            std::arch::asm!(
                "mrs {}, fpcr",
                out(reg) mode,
                options(nomem, nostack, preserves_flags)
            );
        }
        mode
    }

    #[inline]
    pub(super) fn set_mode(mode: u64) {
        // SAFETY: the value is the default or one that the register has had. Compiled code assumes
        // the default, and all code of the library runs in this mode; the program's code
        // runs in the mode that it has chosen itself. The instruction is taken to write
        // memory, so that no computation moves over it together with its operands.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) mode, options(nostack, preserves_flags));
        }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod register {
    pub(super) const CONTROL: u64 = u64::MAX >> 1;
    pub(super) const DEFAULT: u64 = 0;

    pub(super) fn mode() -> u64 {
        DEFAULT
    }

    pub(super) fn set_mode(_mode: u64) {}
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests {
    use super::*;

    /// Denormal numbers are flushed to zero.
    const FLUSH: u64 = if cfg!(target_arch = "x86_64") {
        0x8000
    } else {
        1 << 24
    };
    /// Rounding is upward.
    const UPWARD: u64 = if cfg!(target_arch = "x86_64") {
        0x4000
    } else {
        1 << 22
    };

    fn control() -> u64 {
        mode() & CONTROL
    }

    #[test]
    fn each_code_has_its_mode() {
        for programs in [DEFAULT, DEFAULT | FLUSH, DEFAULT | UPWARD] {
            set_mode(programs);
            in_library(|| {
                assert_eq!(control(), DEFAULT);
                in_program(|| {
                    assert_eq!(control(), programs);
                    in_program(|| assert_eq!(control(), programs));
                    in_library(|| assert_eq!(control(), DEFAULT));
                    assert_eq!(control(), programs);
                });
                assert_eq!(control(), DEFAULT);
            });
            assert_eq!(control(), programs);
            in_program(|| assert_eq!(control(), programs));
            assert_eq!(control(), programs);
        }
        set_mode(DEFAULT);
    }

    #[test]
    fn what_the_program_changes_persists() {
        for changed in [DEFAULT, DEFAULT | FLUSH] {
            for before in [DEFAULT, DEFAULT | UPWARD] {
                set_mode(before);
                in_library(|| {
                    in_program(|| set_mode(changed));
                    assert_eq!(control(), DEFAULT);
                    in_program(|| assert_eq!(control(), changed));
                });
                assert_eq!(control(), changed);
            }
        }
        set_mode(DEFAULT);
    }

    #[test]
    fn a_rule_changes_nothing() {
        set_mode(DEFAULT | FLUSH);
        in_default_mode(|| {
            assert_eq!(control(), DEFAULT);
            set_mode(DEFAULT | UPWARD);
        });
        assert_eq!(control(), DEFAULT | FLUSH);
        set_mode(DEFAULT);
    }

    #[test]
    fn a_panic_restores_the_mode() {
        set_mode(DEFAULT | FLUSH);
        let caught = std::panic::catch_unwind(|| {
            in_library(|| in_program(|| std::panic::resume_unwind(Box::new(()))));
        });
        assert!(caught.is_err());
        assert_eq!(control(), DEFAULT | FLUSH);
        set_mode(DEFAULT);
    }

    #[test]
    fn a_thread_of_the_library_knows_the_mode_of_the_program() {
        for is_in_library in [false, true] {
            set_mode(DEFAULT | UPWARD);
            let start = || {
                let inherited = InheritedMode::of_this_thread();
                let look = move || {
                    inherited.run(|| {
                        assert_eq!(control(), DEFAULT);
                        in_program(|| assert_eq!(control(), DEFAULT | UPWARD));
                        assert_eq!(control(), DEFAULT);
                    });
                    assert_eq!(control(), DEFAULT | UPWARD);
                };
                std::thread::spawn(look).join().unwrap();
            };
            if is_in_library {
                in_library(start)
            } else {
                start()
            }
        }
        set_mode(DEFAULT);
    }
}
