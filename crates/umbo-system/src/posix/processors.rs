//! The number of processors.

/// The number of processors of the machine that are online; `usize::MAX` if the system does not
/// report it.
pub fn online() -> usize {
    // SAFETY: the call takes a number and changes nothing.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(usize::MAX)
}
