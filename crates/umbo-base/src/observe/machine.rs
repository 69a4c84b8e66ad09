//! Measures how much other processes use the processors that this process may use, with the
//! kernel's counters.

use std::fs;

use umbo_system::clock;

/// The load of other processes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// How many processors they used.
    pub others: f64,
    /// How many processors this process may use.
    pub processors: u32,
}

impl Load {
    /// Whether `threads` threads of this process cannot all have had a processor.
    pub fn is_busy_for(&self, threads: u32) -> bool {
        let threads = f64::from(threads.clamp(1, self.processors.max(1)));
        self.others + threads > f64::from(self.processors) + BUSY
    }

    /// A text about the load of others: "other processes [...] used 1.5 of 2 processors".
    pub fn in_words(&self, used: &str) -> String {
        let Load { others, processors } = self;
        let plural = if *processors == 1 { "" } else { "s" };
        format!(
            "other processes (or other guests of this machine's host) {used} {others:.1} of \
             {processors} processor{plural}"
        )
    }
}

/// A smaller part of a processor does not count.
const BUSY: f64 = 0.25;

/// The shortest time that the counters resolve, in nanoseconds. They count hundredths of seconds.
const SHORTEST: u64 = 100_000_000;

/// The beginning of a measurement of the load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    begun: u64,
    ticks: Option<Ticks>,
}

/// The kernel's counters, in hundredths of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// How long the processors of this process were busy, including the time of other guests of
    /// the same host.
    busy: u64,
    /// How long they were busy with this process.
    own: u64,
    processors: u32,
}

impl Watch {
    /// Begins a measurement.
    pub fn begin() -> Watch {
        Watch {
            begun: clock::now(),
            ticks: Ticks::now(),
        }
    }

    /// The load of others since the beginning. `None` if the system does not report it, and right
    /// after the beginning.
    pub fn load(&self) -> Option<Load> {
        let nanoseconds = clock::now().saturating_sub(self.begun);
        let (before, now) = (
            self.ticks?,
            Ticks::now().filter(|_| nanoseconds >= SHORTEST)?,
        );
        let busy = now.busy.saturating_sub(before.busy);
        let others = busy.saturating_sub(now.own.saturating_sub(before.own));
        let others = others as f64 * 1e7 / nanoseconds as f64;
        Some(Load {
            others: others.min(now.processors.into()),
            processors: now.processors,
        })
    }
}

impl Ticks {
    fn now() -> Option<Ticks> {
        let allowed = allowed(&fs::read_to_string("/proc/self/status").ok()?)?;
        let (busy, processors) = busy(&fs::read_to_string("/proc/stat").ok()?, &allowed)?;
        let own = own(&fs::read_to_string("/proc/self/stat").ok()?)?;
        Some(Ticks {
            busy,
            own,
            processors,
        })
    }
}

/// Parses `/proc/self/status`. Returns the processors that the process may use, as ranges.
fn allowed(status: &str) -> Option<Vec<(u32, u32)>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    list.trim().split(',').map(range).collect()
}

/// Parses the lines of `/proc/stat` about these processors: user, nice, system, (idle, waiting,)
/// interrupts of two kinds, and time that the host gave to others. Returns the sum, and the number
/// of lines.
fn busy(stat: &str, allowed: &[(u32, u32)]) -> Option<(u64, u32)> {
    let (mut ticks, mut processors) = (0, 0);
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        let number = fields
            .next()
            .and_then(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
        let Some(number) = number else { continue };
        if !allowed
            .iter()
            .any(|&(first, last)| (first..=last).contains(&number))
        {
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
        assert_eq!(busy(stat, &[(0, 0)]), Some((144, 1)));
        assert_eq!(busy(stat, &[(0, 1), (8, 15)]), Some((144 + 6 + 50, 3)));
        assert_eq!(
            (busy(stat, &[(2, 3)]), busy("intr 1", &[(0, 9)])),
            (None, None)
        );
        assert_eq!(
            own("42 (a name) with) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0"),
            Some(280)
        );
        assert_eq!(own("42 S"), None);
        let ranges = allowed("Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8\n");
        assert_eq!(ranges, Some(vec![(0, 3), (8, 8)]));
        assert_eq!(allowed("Cpus_allowed_list:\tall\n"), None);
    }

    #[test]
    fn busy_is_what_leaves_too_few_processors() {
        let load = |others, processors| Load { others, processors };
        assert!(!load(0.1, 2).is_busy_for(2) && load(0.5, 2).is_busy_for(2));
        assert!(!load(1.0, 2).is_busy_for(1) && load(1.5, 2).is_busy_for(1));
        assert!(!load(16.0, 64).is_busy_for(4) && load(62.0, 64).is_busy_for(4));
        // More threads than processors are a different cause.
        assert!(!load(0.1, 2).is_busy_for(8));
        assert!(
            load(1.44, 2)
                .in_words("used")
                .contains("used 1.4 of 2 processors")
        );
    }

    #[test]
    fn what_this_process_does_is_not_of_others() {
        let watch = Watch::begin();
        assert_eq!(watch.load(), None, "too early to say");
        let until = clock::now() + SHORTEST;
        while clock::now() < until {}
        if let Some(load) = watch.load() {
            assert!(
                (0.0..=f64::from(load.processors)).contains(&load.others),
                "{load:?}"
            );
        }
    }
}
