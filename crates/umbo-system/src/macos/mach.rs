//! The kernel's statistics about the host.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libc::{mach_msg_type_number_t, mach_port_t};

// The crate libc has it, too, and wishes it elsewhere.
unsafe extern "C" {
    safe fn mach_host_self() -> mach_port_t;
}

/// Statistics of one kind.
///
/// # Safety
/// The type consists of numbers, and is the one that the kernel fills for this kind.
pub unsafe trait Statistics {
    /// The kernel's number of the kind.
    const KIND: c_int;
}

// SAFETY: the type consists of numbers and belongs to the kind.
unsafe impl Statistics for libc::vm_statistics64 {
    const KIND: c_int = libc::HOST_VM_INFO64;
}

// SAFETY: as above.
unsafe impl Statistics for libc::host_cpu_load_info {
    const KIND: c_int = libc::HOST_CPU_LOAD_INFO;
}

/// Asks for statistics. What an older kernel does not know is zero.
pub fn statistics<T: Statistics>() -> io::Result<T> {
    /// Each call gives the process one more right to the port, so it is asked for once.
    static HOST: OnceLock<mach_port_t> = OnceLock::new();
    let host = *HOST.get_or_init(|| mach_host_self());
    let mut found = MaybeUninit::<T>::zeroed();
    let mut count = (size_of::<T>() / size_of::<c_int>()) as mach_msg_type_number_t;
    // SAFETY: there is memory for as many numbers as the call is told, and the type belongs to the
    // kind.
    let answer =
        unsafe { libc::host_statistics64(host, T::KIND, found.as_mut_ptr().cast(), &mut count) };
    match answer {
        // SAFETY: all zeros is a value of numbers, and the kernel has filled in others.
        libc::KERN_SUCCESS => Ok(unsafe { found.assume_init() }),
        code => Err(io::Error::other(format!(
            "the kernel refused statistics of kind {} with code {code}",
            T::KIND
        ))),
    }
}
