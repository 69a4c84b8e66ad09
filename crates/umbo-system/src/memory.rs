//! Memory: pages of the system's, and how many there are.

pub use crate::platform::memory::{
    LARGE_PAGE, LARGE_PAGES_COMMAND, PAGE, Pages, large_pages, size,
};

/// The memory that the host has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySize {
    /// All of it.
    pub total: u64,
    /// The bytes that new allocations could get without swapping.
    pub available: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_begin_where_they_should_and_are_zeros() {
        for alignment in [PAGE, LARGE_PAGE] {
            let pages = Pages::zeroed(3 * PAGE, alignment).unwrap();
            assert!(pages.start().addr().get().is_multiple_of(alignment));
            assert_eq!(pages.bytes(), 3 * PAGE);
            pages.prefer_large();
            pages.offer_to_system();
        }
        assert!(Pages::zeroed(usize::MAX / PAGE * PAGE, PAGE).is_none());
    }

    #[test]
    fn the_host_has_memory() {
        let size = size().unwrap();
        assert!(size.total > 0);
        assert!(size.available <= size.total);
    }
}
