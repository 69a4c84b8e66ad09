//! Processors, as the scheduler of the kernel knows them.

use std::{fs, io};

pub use crate::posix::processors::online;
use crate::processors::{Cache, CpuSet, Frequency};

/// The most processors that Linux can be built for. The kernel fails a call whose set is smaller
/// than its own, and the C library's type has room for 1,024.
pub const MOST: usize = 8192;

pub fn of_current_thread() -> io::Result<CpuSet> {
    of_thread(0)
}

pub fn of_main_thread() -> io::Result<CpuSet> {
    of_thread(std::process::id() as libc::pid_t)
}

/// The processors on which a thread may run, given its id; 0 is the calling thread.
fn of_thread(thread: libc::pid_t) -> io::Result<CpuSet> {
    let mut set = CpuSet::default();
    // SAFETY: the set has the given size, is words of bits as the kernel's sets are, and lives
    // during the call.
    match unsafe { libc::sched_getaffinity(thread, size_of_val(&set.0), set.0.as_mut_ptr().cast()) }
    {
        0 => Ok(set),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn bind(set: &CpuSet) -> io::Result<()> {
    // SAFETY: as in `of_thread`; thread 0 is the calling one.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set.0), set.0.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The processor on which the calling thread runs at this moment, if the system reports it. It
/// costs some nanoseconds and no system call.
#[inline]
pub fn current() -> Option<usize> {
    // SAFETY: the call takes no arguments and changes nothing.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The size in bytes of the third-level cache that the first processor uses, if the system reports
/// it. (On some systems `sysconf` returns the sum over all caches of the socket.)
pub fn last_level_cache() -> Option<usize> {
    let third = caches(0).into_iter().find(|cache| cache.level == 3)?;
    Some(third.bytes).filter(|&bytes| bytes > 0)
}

/// The caches with data that this processor uses, from the nearest on, as far as the system reports
/// them.
pub fn caches(processor: usize) -> Vec<Cache> {
    let mut found: Vec<Cache> = (0..)
        .map(|index| format!("cpu{processor}/cache/index{index}"))
        .map_while(|folder| Some((text_of(&format!("{folder}/type"))?, folder)))
        .filter(|(kind, _)| kind != "Instruction")
        .filter_map(|(_, folder)| {
            let read = |name| text_of(&format!("{folder}/{name}"));
            let kibibytes: usize = read("size")?.strip_suffix('K')?.parse().ok()?;
            Some(Cache {
                level: read("level")?.parse().ok()?,
                bytes: kibibytes.checked_mul(1024)?,
                processors: parse(&read("shared_cpu_list")?)?,
            })
        })
        .collect();
    found.sort_by_key(|cache| cache.level);
    found
}

/// The processors of each memory node that has some. None if the system does not report nodes.
pub fn memory_nodes() -> Vec<CpuSet> {
    let nodes = "/sys/devices/system/node";
    let read = |name: String| fs::read_to_string(format!("{nodes}/{name}")).ok();
    let Some(online) = read("online".into()).and_then(|list| parse(&list)) else {
        return Vec::new();
    };
    // The list of a node that has memory alone is empty.
    let processors = |node| parse(&read(format!("node{node}/cpulist"))?);
    online.processors().filter_map(processors).collect()
}

/// The processors of the machine that are online, if the system reports them.
pub fn online_set() -> Option<CpuSet> {
    parse(&text_of("online")?)
}

/// The processors that share a core with this one, itself included, if the system reports them.
pub fn siblings(processor: usize) -> Option<CpuSet> {
    parse(&text_of(&format!(
        "cpu{processor}/topology/thread_siblings_list"
    ))?)
}

/// How the frequency of this processor is chosen, if the system reports it.
pub fn frequency(processor: usize) -> Option<Frequency> {
    let read = |name| text_of(&format!("cpu{processor}/cpufreq/{name}"));
    Some(Frequency {
        governor: read("scaling_governor")?,
        driver: read("scaling_driver").unwrap_or_default(),
        preference: read("energy_performance_preference").unwrap_or_default(),
    })
}

/// The system's name of the first processor. Not all architectures report one.
pub fn model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The text of a file of the kernel's about processors.
fn text_of(file: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/devices/system/cpu/{file}")).ok()?;
    Some(text.trim().to_owned())
}

/// Parses a list of the kernel's, such as `0-3,8`.
pub(super) fn parse(list: &str) -> Option<CpuSet> {
    let mut set = CpuSet::default();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        for processor in first.parse().ok()?..=last.parse::<usize>().ok()?.min(MOST) {
            set.insert(processor);
        }
    }
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_and_nodes_have_their_processors() {
        for processor in online_set().unwrap().processors().take(8) {
            let caches = caches(processor);
            assert!(caches.is_sorted_by_key(|cache| cache.level));
            for cache in caches {
                assert!(cache.bytes > 0 && cache.processors.contains(processor));
            }
        }
        let nodes = memory_nodes();
        let together: usize = nodes.iter().map(CpuSet::count).sum();
        let all: CpuSet = nodes.iter().flat_map(CpuSet::processors).collect();
        assert_eq!(all.count(), together, "no processor is in two nodes");
    }

    #[test]
    fn lists_are_those_that_sets_print() {
        for list in ["0", "0-3", "0-3,8", "1,63-64,8191"] {
            assert_eq!(parse(list).unwrap().to_string(), list);
        }
        assert_eq!(parse("0-99999999999\n").unwrap().count(), MOST);
        for list in ["", "all", "0-", "1,,2"] {
            assert_eq!(parse(list), None, "{list}");
        }
    }
}
