//! Processors: sets of them, and those on which a thread may run.

use std::{fmt, io};

use crate::platform::processors::MOST;
pub use crate::platform::processors::{
    caches, current, frequency, last_level_cache, memory_nodes, model, online, online_set, siblings,
};

/// A cache that holds data, instructions or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 for the one next to the core.
    pub level: usize,
    /// Its size.
    pub bytes: usize,
    /// The processors that share it. Empty if the system does not report them.
    pub processors: CpuSet,
}

/// How a processor's frequency is chosen, in the system's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequency {
    /// The policy.
    pub governor: String,
    /// The scheduler or driver that carries it out.
    pub driver: String,
    /// The preference of the hardware, where it chooses by itself.
    pub preference: String,
}

/// A set of processors, by the system's numbers. It prints as `0-3,8`. It allocates no memory.
#[derive(Clone, PartialEq, Eq)]
pub struct CpuSet(pub(crate) [u64; MOST / 64]);

impl Default for CpuSet {
    fn default() -> CpuSet {
        CpuSet([0; MOST / 64])
    }
}

impl CpuSet {
    /// The processors on which the calling thread may run.
    #[inline]
    pub fn of_current_thread() -> io::Result<CpuSet> {
        crate::platform::processors::of_current_thread()
    }

    /// The processors on which the process's first thread may run.
    pub fn of_main_thread() -> io::Result<CpuSet> {
        crate::platform::processors::of_main_thread()
    }

    /// Binds the calling thread, and the threads that it creates from now on, to these processors.
    /// Allocates nothing. [`io::ErrorKind::InvalidInput`] if the process may use none of them.
    #[inline]
    pub fn bind(&self) -> io::Result<()> {
        crate::platform::processors::bind(self)
    }

    /// The processors in the set, in ascending order.
    #[inline]
    pub fn processors(&self) -> impl Iterator<Item = usize> + '_ {
        (0..MOST).filter(|&processor| self.contains(processor))
    }

    /// The number of processors that are in the set.
    #[inline]
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no processor is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Whether this processor is in the set.
    #[inline]
    pub fn contains(&self, processor: usize) -> bool {
        self.0
            .get(processor / 64)
            .is_some_and(|word| word >> (processor % 64) & 1 == 1)
    }

    /// Puts this processor into the set. One that no machine of the system has is left out.
    #[inline]
    pub fn insert(&mut self, processor: usize) {
        if let Some(word) = self.0.get_mut(processor / 64) {
            *word |= 1 << (processor % 64);
        }
    }

    /// Takes this processor out of the set.
    #[inline]
    pub fn remove(&mut self, processor: usize) {
        if let Some(word) = self.0.get_mut(processor / 64) {
            *word &= !(1 << (processor % 64));
        }
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(processors: I) -> CpuSet {
        let mut set = CpuSet::default();
        processors
            .into_iter()
            .for_each(|processor| set.insert(processor));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut rest = self.processors().peekable();
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(formatter, "{separator}{first}")?;
            if last > first {
                write!(formatter, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(processors: &[usize]) -> CpuSet {
        processors.iter().copied().collect()
    }

    #[test]
    fn sets_print_as_ranges() {
        assert_eq!(set(&[]).to_string(), "");
        assert_eq!(set(&[3]).to_string(), "3");
        assert_eq!(set(&[8, 0, 1, 2, 3, 5]).to_string(), "0-3,5,8");
        assert_eq!(set(&[63, 64, 8191, 8192]).to_string(), "63-64,8191");
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut odd = set(&[1, 3, 1021, 3]);
        assert_eq!(odd.processors().collect::<Vec<_>>(), [1, 3, 1021]);
        assert_eq!(odd.count(), 3);
        assert!(odd.contains(1021) && !odd.contains(2) && !odd.contains(1 << 30));
        assert!(!odd.is_empty() && set(&[]).is_empty());
        odd.remove(1021);
        odd.remove(1 << 30);
        assert_eq!(odd, set(&[1, 3]));
    }

    #[test]
    fn a_thread_runs_where_it_may() {
        let allowed = CpuSet::of_current_thread().unwrap();
        // Only macOS does not report it.
        assert!(current().is_none_or(|processor| allowed.contains(processor)));
        assert!(current().is_some() || cfg!(target_os = "macos"));
        assert!(online() >= allowed.count());
        assert_eq!(
            set(&[1023]).bind().unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
