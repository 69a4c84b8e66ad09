//! The processors that this process may use, their division among logical CPUs, and the binding of
//! a thread to some of them.

use std::io;
use std::sync::OnceLock;

use crate::topology;
use umbo_base::error::{Error, Result};
use umbo_system::processors::online;
pub use umbo_system::processors::{CpuSet, current as current_processor};

/// The processors that this process may use: those of the main thread and of the thread that calls
/// first. They are read once, by the first call, so that threads which the library binds later do
/// not reduce them. If the kernel does not report them, their number is that of the standard
/// library.
pub fn process_processors() -> &'static CpuSet {
    static PROCESSORS: OnceLock<CpuSet> = OnceLock::new();
    PROCESSORS.get_or_init(|| {
        let read = [CpuSet::of_main_thread(), CpuSet::of_current_thread()];
        let mut set: CpuSet = read.iter().flatten().flat_map(CpuSet::processors).collect();
        if set.is_empty() {
            set = (0..available()).collect();
        }
        set
    })
}

/// The position of this process among the processes that share this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorPart {
    /// Its number among them, below `count`.
    pub index: usize,
    /// The number of these processes, 1 or more.
    pub count: usize,
}

impl ProcessorPart {
    /// The only process.
    pub const WHOLE: ProcessorPart = ProcessorPart { index: 0, count: 1 };

    /// The processors of this process. If it may use all of the machine's processors, these are its
    /// [`share`] of them. If not, the launcher has already divided them, and these are all that
    /// it may use.
    pub fn processors(self) -> CpuSet {
        self.of(process_processors(), online())
    }

    /// The result of [`ProcessorPart::processors`] if the process may use `allowed` and the machine
    /// has `machine` processors.
    fn of(self, allowed: &CpuSet, machine: usize) -> CpuSet {
        match allowed.count() >= machine {
            true => share(allowed, self.index, self.count),
            false => allowed.clone(),
        }
    }
}

/// The number of processors that the calling thread may use now. It takes limits of processor time
/// into account. 1 if the system does not report it.
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// The number of processors whose time this process may use: its processors, or as many as the
/// system grants the time of, if it limits that (the quota of a cgroup). 1 or more. It is found out
/// once.
pub fn usable() -> usize {
    static USABLE: OnceLock<usize> = OnceLock::new();
    if let Some(&usable) = USABLE.get() {
        return usable;
    }
    let all = process_processors().count().max(1);
    let reported = available();
    let of_thread = CpuSet::of_current_thread().map_or(all, |set| set.count());
    let usable = usable_of(all, of_thread, reported);
    // The system reports to a thread at most the processors that it is bound to, so one that is
    // bound to fewer learns nothing of the quota, and its answer is not kept.
    if of_thread >= all || usable < all {
        *USABLE.get_or_init(|| usable)
    } else {
        usable
    }
}

/// The result of [`usable`] for a process with `all` processors, if the system reports this number
/// to a thread that may run on `of_thread` of them: the smaller one of these and the quota.
fn usable_of(all: usize, of_thread: usize, reported: usize) -> usize {
    if reported < of_thread {
        all.min(reported.max(1))
    } else {
        all
    }
}

/// The processors on which the calling thread may run now. A thread that was bound temporarily can
/// be bound to them again. UNAVAILABLE if the kernel does not report them.
pub fn current_thread_processors() -> Result<CpuSet> {
    CpuSet::of_current_thread()
        .map_err(|cause| Error::Unavailable(format!("reading a thread's processors: {cause}")))
}

/// Moves the calling thread to a processor for which `taken` is false, if there is one on which it
/// may run. The set of processors on which it may run is the same afterwards. Returns whether it
/// was moved. It costs some microseconds and allocates nothing.
pub fn step_aside(taken: impl Fn(usize) -> bool) -> bool {
    let Ok(allowed) = CpuSet::of_current_thread() else {
        return false;
    };
    let free: CpuSet = allowed
        .processors()
        .filter(|&processor| !taken(processor))
        .collect();
    if free.is_empty() {
        return false;
    }
    let moved = free.bind().is_ok();
    // If this fails, the thread stays where it is, and the system may move it.
    let _ = allowed.bind();
    moved
}

/// The processor that a thread of the library is kept off: that of the thread for which it works.
/// The system may wake a thread on the processor of the thread that wakes it, where both take turns
/// for milliseconds.
#[derive(Debug, Default)]
pub struct KeptOff {
    processor: Option<usize>,
}

impl KeptOff {
    /// Keeps the calling thread off `processor`, until a call names another one. The thread stays
    /// where it is if there is no other processor, or if the program has placed it. Costs a
    /// microsecond if the processor is not that of the last call, and allocates nothing.
    /// Threads that it starts inherit this.
    pub fn set(&mut self, processor: usize) {
        if self.processor == Some(processor) || !is_bound_to(&KeptOff::without(self.processor)) {
            return;
        }
        let others = KeptOff::without(Some(processor));
        if !others.is_empty() && others.bind().is_ok() {
            self.processor = Some(processor);
        }
    }

    fn without(processor: Option<usize>) -> CpuSet {
        let mut set = process_processors().clone();
        if let Some(processor) = processor {
            set.remove(processor);
        }
        set
    }
}

/// The share of logical CPU `index` of `count` in `processors`. With enough processors, the shares
/// are disjoint, together they are all processors, and their sizes differ by at most one. The
/// processors of a share are neighbours: as far as numbers allow, no core, no last cache and no
/// memory node is divided. With fewer processors, each share is one of them, assigned in turn.
/// `index` is below `count`. The share of an empty set is empty.
pub fn share(processors: &CpuSet, index: usize, count: usize) -> CpuSet {
    debug_assert!(index < count, "logical CPU {index} of {count}");
    part_of(
        topology::in_order(processors),
        processors.count(),
        index,
        count,
    )
}

/// The same of `available` processors in their order.
pub(crate) fn part_of(
    processors: impl Iterator<Item = usize>,
    available: usize,
    index: usize,
    count: usize,
) -> CpuSet {
    if available == 0 || count == 0 {
        return CpuSet::default();
    }
    let (start, end) = if count <= available {
        // The products do not overflow, because both factors are numbers of processors.
        (index * available / count, (index + 1) * available / count)
    } else {
        (index % available, index % available + 1)
    };
    processors.skip(start).take(end - start).collect()
}

/// Binds the calling thread, and the threads that it creates from now on, to these processors.
/// Allocates nothing. INVALID_ARGUMENT for an empty set or one without a processor that this
/// process may use; PERMISSION_DENIED if the system forbids binding.
pub fn bind_current_thread(processors: &CpuSet) -> Result<()> {
    if processors.is_empty() {
        return Err(invalid!(
            "processors",
            "none; a thread needs one or more to run on"
        ));
    }
    let Err(cause) = processors.bind() else {
        return Ok(());
    };
    Err(match cause.kind() {
        io::ErrorKind::InvalidInput => invalid!(
            "processors",
            "none of {processors} may be used by this process, which has {}",
            process_processors()
        ),
        _ => Error::of_system(
            format_args!("binding a thread to processors {processors}"),
            &cause,
        ),
    })
}

/// Whether the calling thread may run on exactly these processors. Allocates nothing.
pub fn is_bound_to(processors: &CpuSet) -> bool {
    CpuSet::of_current_thread().is_ok_and(|allowed| allowed == *processors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::error::Status;

    #[test]
    fn stepping_aside_leaves_what_is_allowed() {
        let before = current_thread_processors().unwrap();
        assert!(!step_aside(|_| true));
        let busy = current_processor().unwrap();
        let moved = step_aside(|processor| processor == busy);
        assert_eq!(moved, before.count() > 1);
        assert_eq!(current_thread_processors().unwrap(), before);
    }

    #[test]
    fn a_thread_that_works_for_another_is_kept_off_its_processor() {
        // This runs in a thread of its own, so that the test's thread is not bound.
        let thread = std::thread::spawn(|| {
            let all = process_processors();
            let mut kept_off = KeptOff::default();
            for processor in all.processors() {
                kept_off.set(processor);
                let others = all.processors().filter(|&other| other != processor);
                let others = if all.count() > 1 {
                    others.collect()
                } else {
                    all.clone()
                };
                assert_eq!(current_thread_processors().unwrap(), others);
            }
            // If the program has placed the thread, it stays there.
            let last = all.processors().last();
            bind_current_thread(&last.into_iter().collect()).unwrap();
            KeptOff::default().set(last.unwrap());
            assert!(is_bound_to(&last.into_iter().collect()));
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_quota_is_what_is_less_than_the_processors() {
        // A process on 8 processors, without a quota and with one of 2: a thread on all of them,
        // and one on 2 or 1.
        for (of_thread, reported, usable) in [
            (8, 8, 8),
            (8, 2, 2),
            (2, 2, 8),
            (1, 1, 8),
            (4, 2, 2),
            (8, 0, 1),
        ] {
            assert_eq!(
                usable_of(8, of_thread, reported),
                usable,
                "{of_thread}, {reported}"
            );
        }
        assert!((1..=process_processors().count()).contains(&usable()));
    }

    fn set(processors: &[usize]) -> CpuSet {
        processors.iter().copied().collect()
    }

    /// The share on a machine whose processors are numbered as they lie.
    fn by_number(processors: &CpuSet, index: usize, count: usize) -> CpuSet {
        part_of(processors.processors(), processors.count(), index, count)
    }

    fn shares(processors: &CpuSet, count: usize) -> Vec<String> {
        (0..count)
            .map(|index| by_number(processors, index, count).to_string())
            .collect()
    }

    #[test]
    fn shares_are_balanced_and_contiguous() {
        let eight = (0..8).collect();
        assert_eq!(shares(&eight, 1), ["0-7"]);
        assert_eq!(shares(&eight, 4), ["0-1", "2-3", "4-5", "6-7"]);
        assert_eq!(shares(&eight, 3), ["0-1", "2-4", "5-7"]);
        assert_eq!(shares(&set(&[2, 5, 6, 90]), 2), ["2,5", "6,90"]);
    }

    /// If a process may not use the whole machine, its processors were already divided, and it uses
    /// all of them.
    #[test]
    fn processes_divide_a_machine_that_nobody_has_divided() {
        let part = |index, count, allowed: &[usize], machine| {
            ProcessorPart { index, count }
                .of(&set(allowed), machine)
                .to_string()
        };
        let half = |index| share(&set(&[0, 1, 2, 3]), index, 2).to_string();
        assert_eq!(part(0, 2, &[0, 1, 2, 3], 4), half(0));
        assert_eq!(part(1, 2, &[0, 1, 2, 3], 4), half(1));
        assert_eq!(part(0, 1, &[0, 1, 2, 3], 4), "0-3");
        assert_eq!(
            part(2, 3, &[0, 1], 2),
            part(0, 3, &[0, 1], 2),
            "more processes than processors"
        );
        assert_eq!(part(1, 2, &[2, 3], 4), "2-3", "bound by the launcher");
        assert_eq!(
            part(1, 2, &[0, 1, 2], usize::MAX),
            "0-2",
            "the system does not tell"
        );
    }

    #[test]
    fn shares_cover_everything_once() {
        for available in 1..40 {
            let processors: CpuSet = (0..available).map(|index| index * 3 + 1).collect();
            for count in 1..=available {
                let parts: Vec<_> = (0..count)
                    .map(|index| by_number(&processors, index, count))
                    .collect();
                let joined: Vec<_> = parts.iter().flat_map(CpuSet::processors).collect();
                assert!(processors.processors().eq(joined));
                let sizes = || parts.iter().map(CpuSet::count);
                assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn more_logical_cpus_than_processors_take_turns() {
        assert_eq!(shares(&set(&[4, 9]), 5), ["4", "9", "4", "9", "4"]);
        assert!(share(&set(&[]), 0, 3).is_empty());
    }

    #[test]
    fn a_thread_can_be_bound_and_set_free() {
        // This runs in a thread of its own, so that the test's thread is not bound.
        std::thread::spawn(|| {
            let before = current_thread_processors().unwrap();
            assert!(
                before
                    .processors()
                    .all(|each| process_processors().contains(each))
            );
            let last = before.processors().last().unwrap();
            bind_current_thread(&set(&[last])).unwrap();
            assert_eq!(current_thread_processors().unwrap(), set(&[last]));
            assert!(is_bound_to(&set(&[last])));
            assert_eq!(is_bound_to(&before), before.count() == 1);
            let child = std::thread::spawn(|| current_thread_processors().unwrap());
            assert_eq!(child.join().unwrap(), set(&[last]));
            bind_current_thread(&before).unwrap();
            assert_eq!(current_thread_processors().unwrap(), before);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn binding_to_nothing_is_refused() {
        let error = bind_current_thread(&set(&[])).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument);
        let absent = set(&[1023]);
        let error = bind_current_thread(&absent).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument);
        assert!(error.to_string().contains("1023"), "{error}");
    }
}
