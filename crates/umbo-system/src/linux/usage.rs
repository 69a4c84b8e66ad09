//! The kernel's counters of time on processors.

use std::fs;

use super::processors::parse;
use crate::processors::CpuSet;
use crate::usage::ProcessorTime;

/// The kernel counts the time of processors in hundredths of seconds.
pub const RESOLUTION: u64 = 10_000_000;

/// The time of a thread of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTime {
    /// The system's id of the thread.
    pub thread: u32,
    /// The time for which it has been on a processor, in nanoseconds.
    pub nanoseconds: u64,
}

/// The time of each thread of the process. There are none if the system does not report them.
pub fn threads() -> impl Iterator<Item = ThreadTime> {
    let entries = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(|entry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(ThreadTime {
            thread,
            nanoseconds,
        })
    })
}

/// The name of a thread of the process, given its id.
pub fn thread_name(thread: u32) -> Option<String> {
    let name = fs::read(format!("/proc/self/task/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// The time of the processors that this process may use, if the system reports it. It is a multiple
/// of [`RESOLUTION`].
pub fn processors() -> Option<ProcessorTime> {
    let allowed = allowed(&fs::read_to_string("/proc/self/status").ok()?)?;
    let (busy, processors) = busy(&fs::read_to_string("/proc/stat").ok()?, &allowed)?;
    let own_time = own(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(ProcessorTime {
        busy: busy * RESOLUTION,
        own_time: own_time * RESOLUTION,
        processors,
    })
}

/// The number of threads of the machine that were ready or on a processor in the last 1, 5 and 15
/// minutes, if the system reports it.
pub fn load_averages() -> Option<[f64; 3]> {
    averages(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// Parses `/proc/loadavg`.
fn averages(text: &str) -> Option<[f64; 3]> {
    let mut fields = text
        .split_ascii_whitespace()
        .map(|field| field.parse().ok());
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// Parses `/proc/self/status`. Returns the processors that the process may use.
fn allowed(status: &str) -> Option<CpuSet> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    parse(list)
}

/// Parses the lines of `/proc/stat` about these processors: user, nice, system, (idle, waiting,)
/// interrupts of two kinds, and time that the host gave to others. Returns the sum, and the number
/// of lines.
fn busy(stat: &str, allowed: &CpuSet) -> Option<(u64, u32)> {
    let mut ticks = 0;
    let mut processors = 0;
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let number = fields
            .next()
            .and_then(|name| name.strip_prefix("cpu")?.parse().ok());
        let Some(number) = number else { continue };
        if !allowed.contains(number) {
            continue;
        }
        let fields: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        ticks += [0, 1, 2, 5, 6, 7]
            .into_iter()
            .filter_map(|at| fields.get(at))
            .sum::<u64>();
        processors += 1;
    }
    (processors > 0).then_some((ticks, processors))
}

/// Parses `/proc/self/stat`. Returns the sum of the 14th and 15th field, user and system. The
/// second field is a name in parentheses, which may contain spaces.
fn own(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 100 20 3 4000 500 6 7 8 0 0\ncpu1 1 1 1 1 1 1 \
                    1 1 1 1\ncpu12 50 0 0 0 0 0 0 0 0 0\nintr 1\n";
        let busy_of = |stat, list| busy(stat, &parse(list).unwrap());
        assert_eq!(busy_of(stat, "0"), Some((144, 1)));
        assert_eq!(busy_of(stat, "0-1,8-15"), Some((144 + 6 + 50, 3)));
        assert_eq!(
            (busy_of(stat, "2-3"), busy_of("intr 1", "0-9")),
            (None, None)
        );
        assert_eq!(
            own("42 (a name) with) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0"),
            Some(280)
        );
        assert_eq!(own("42 S"), None);
        let set = allowed("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n");
        assert_eq!(set, parse("0-3,8"));
        assert_eq!(allowed("Cpus_allowed_list:\tall\n"), None);
        assert_eq!(averages("0.10 16.1 9 1/100 4242\n"), Some([0.1, 16.1, 9.0]));
        assert_eq!(averages("0.10 16.1"), None);
    }
}
