//! Figures of measured steps. They are medians, so that a step that the system interrupted has no
//! effect.

use std::fmt::Write;

use crate::libraries::Library;
use crate::machine::Load;
use crate::processes::Other;
use crate::sample::{ReplicaSample, Setup, StepSample};
use umbo_base::observe::phase::{ByPhase, Phase};

/// The figures of a strategy's measured steps. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The strategy's configuration.
    pub setup: Setup,
    /// The number of steps that were measured.
    pub measured: u64,
    /// The number of all steps in the same time.
    pub seen: u64,
    /// The time from the end of a step to the end of the next.
    pub period: u64,
    /// The mean of the same time. Unlike the median, it shows a few long steps.
    pub mean: u64,
    /// The part of a step whose mean exceeds its median most, and by how much.
    pub longer: Option<(&'static str, u64)>,
    /// Whether the time between two runs is known. If not, a step is as long as its run.
    pub is_whole: bool,
    /// The time of a run.
    pub run: u64,
    /// The time that the program spent between the runs, outside of the library.
    pub outside: u64,
    /// The part of a run that is neither central work nor the work of the busiest device's
    /// replicas.
    pub coordination: u64,
    /// The number of bytes that the updates of a step move.
    pub updated: u64,
    /// The times of each replica.
    pub replicas: Vec<ReplicaTimes>,
    /// How far the callbacks overlapped, if clocks of threads were read.
    pub overlap: Option<Overlap>,
    /// The threads that worked in this time and do not belong to the library.
    pub others: Vec<Other>,
    /// How long the library's threads were on processors in this time, callbacks included.
    pub own_on_processor: u64,
    /// The load of other processes in this time.
    pub load: Option<Load>,
    /// The computing libraries that are loaded.
    pub libraries: Vec<Library>,
    /// Other causes that may make steps slower and do not show in the figures, as texts.
    pub notes: Vec<String>,
}

/// The times of one replica in a step, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReplicaTimes {
    /// The time of each phase. Work that is done once for all replicas counts for each of them.
    pub spent: ByPhase<u64>,
    /// The time of its own work: callback, copies, splitting.
    pub busy: u64,
    /// The time of the callback, without the time in which the thread was kept from a processor.
    pub unhampered: u64,
    /// The time for which the callback's thread was ready and had no processor.
    pub ready: Option<u64>,
}

/// How far callbacks overlapped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overlap {
    /// The mean number of callbacks that worked at the same time, from the first beginning to the
    /// last end.
    pub at_work: f64,
    /// The part of their time in which they waited for something other than a processor.
    pub blocked: f64,
    /// The work of the replica that does least, as a part of the mean.
    pub least: f64,
}

impl Summary {
    /// The summary of `steps`, and of their replicas' samples, which are in the order of the steps.
    pub fn of(setup: Setup, steps: &[StepSample], replicas: &[ReplicaSample]) -> Summary {
        let count = setup.replicas.max(1) as usize;
        let mut steps: Vec<Step> = steps
            .iter()
            .zip(replicas.chunks_exact(count))
            .map(|(step, replicas)| Step::of(step, replicas, setup.devices))
            .collect();
        if steps.is_empty() {
            return Summary {
                setup,
                ..Summary::default()
            };
        }
        let measured = steps.len() as u64;
        let is_whole = steps.iter().any(|step| step.is_whole);
        // Values that are not known for a step must not count as 0.
        steps.retain(|step| step.is_whole || !is_whole);
        let middle = |value: &dyn Fn(&Step) -> u64| median_of(&steps, value);
        Summary {
            setup,
            measured,
            seen: measured,
            period: middle(&|step| step.period),
            mean: mean_of(&steps, &|step| step.period),
            longer: most_uneven(&steps),
            is_whole,
            run: middle(&|step| step.run),
            outside: middle(&|step| step.outside),
            coordination: middle(&|step| step.coordination),
            updated: middle(&|step| step.updated),
            replicas: (0..count).map(|at| replica_times(&steps, at)).collect(),
            overlap: median_overlap(&steps),
            ..Summary::default()
        }
    }

    /// Whether steps differ so much that the median says little about all steps.
    pub fn is_uneven(&self) -> bool {
        u128::from(self.mean) * 2 > u128::from(self.period) * 3
    }

    /// The time of work that is done once for all replicas of a step.
    pub fn central(&self, phase: Phase) -> u64 {
        self.replicas
            .iter()
            .map(|replica| replica.spent[phase as usize])
            .min()
            .unwrap_or(0)
    }

    /// The time of the replica that spends most on the phase.
    pub fn longest(&self, phase: Phase) -> u64 {
        self.replicas
            .iter()
            .map(|replica| replica.spent[phase as usize])
            .max()
            .unwrap_or(0)
    }

    /// The work of the device that works longest, which is the work of its replicas.
    pub fn busiest(&self) -> u64 {
        busiest(&self.replicas, self.setup.devices)
    }

    /// The work of all replicas.
    pub fn work(&self) -> u64 {
        self.replicas.iter().map(|replica| replica.busy).sum()
    }

    /// The figures as a table.
    pub fn table(&self) -> String {
        let Setup {
            replicas,
            devices,
            processors,
            ..
        } = self.setup;
        let on = match devices < replicas {
            true => format!(" on {}", counted(devices.into(), "device")),
            false => String::new(),
        };
        let in_the_mean = match self.is_uneven() {
            true => format!(", in the mean {}", duration(self.mean)),
            false => String::new(),
        };
        let mut text = format!(
            "{}{on} on {}; {} measured of {}; a step takes {}{in_the_mean}\n\n{:<10}",
            counted(replicas.into(), "replica"),
            counted(processors.into(), "processor"),
            counted(self.measured, "step"),
            self.seen,
            duration(self.period),
            ""
        );
        // Writing to a string cannot fail.
        for phase in Phase::ALL {
            let _ = write!(text, " {:>9}", phase.name());
        }
        text.push('\n');
        for (at, replica) in self.replicas.iter().enumerate() {
            let _ = write!(text, "replica {at:<2}");
            for spent in replica.spent {
                let _ = write!(text, " {:>9}", duration(spent));
            }
            text.push('\n');
        }
        let _ = match self.is_whole {
            true => {
                writeln!(
                    text,
                    "\nbetween the runs, in the program: {}",
                    duration(self.outside)
                )
            }
            false => writeln!(
                text,
                "\nbetween the runs: not known, since no two runs followed each other on one \
                 thread"
            ),
        };
        let _ = writeln!(
            text,
            "coordination, of a run of {}: {}",
            duration(self.run),
            duration(self.coordination)
        );
        text.push_str(&self.waits_for_processors());
        text
    }

    /// The line of the table about replicas that were ready and had no processor, if there are any.
    fn waits_for_processors(&self) -> String {
        let waits: Vec<String> = self
            .replicas
            .iter()
            .enumerate()
            .filter_map(|(at, replica)| {
                let ready = replica.ready.filter(|&ready| ready > replica.busy / 20)?;
                Some(format!("replica {at} {}", duration(ready)))
            })
            .collect();
        if waits.is_empty() {
            return String::new();
        }
        let waits = waits.join(", ");
        format!("ready but without a processor, of the time in compute: {waits}\n")
    }
}

/// One step.
struct Step {
    period: u64,
    /// Whether the time before the run is known.
    is_whole: bool,
    run: u64,
    outside: u64,
    coordination: u64,
    updated: u64,
    replicas: Vec<ReplicaTimes>,
    overlap: Option<Overlap>,
}

impl Step {
    fn of(step: &StepSample, replicas: &[ReplicaSample], devices: u32) -> Step {
        let compute = Phase::Compute as usize;
        let wait = Phase::Wait as usize;
        let mut central = step.central;
        central[compute] = 0;
        central[wait] = 0;
        let mut in_callback: Vec<ByPhase<u64>> = replicas.iter().map(time_in_callback).collect();
        // The functions of merge calls run on the calling thread, which usually runs replica 0 as
        // well. The time that it spends on them is work for all replicas.
        for phase in [Phase::Reduce, Phase::Update, Phase::Exchange].map(|phase| phase as usize) {
            let of_others = in_callback
                .iter()
                .skip(1)
                .map(|in_callback| in_callback[phase])
                .min()
                .unwrap_or(0);
            if let Some(first) = in_callback.first_mut() {
                let for_all = first[phase].saturating_sub(of_others);
                first[phase] -= for_all;
                central[phase] += for_all;
            }
        }
        let total = |spent: &ByPhase<u64>| spent.iter().sum::<u64>();
        let times: Vec<ReplicaTimes> = in_callback
            .iter()
            .zip(replicas)
            .map(|(in_callback, replica)| {
                let busy = total(in_callback) - in_callback[wait];
                let waited = step.run.saturating_sub(total(&central) + busy);
                let spent = std::array::from_fn(|phase| match phase {
                    phase if phase == wait => waited,
                    phase => step.before[phase] + central[phase] + in_callback[phase],
                });
                let ready = replica.clocks.map(|clocks| clocks.ready);
                let unhampered = in_callback[compute].saturating_sub(ready.unwrap_or(0));
                ReplicaTimes {
                    spent,
                    busy,
                    unhampered,
                    ready,
                }
            })
            .collect();
        let work = total(&central) + busiest(&times, devices);
        let coordination = step.run.saturating_sub(work);
        let before = total(&step.before) - step.before[compute] - step.before[wait];
        Step {
            period: if step.period > 0 {
                step.period
            } else {
                step.run
            },
            is_whole: step.period > 0,
            run: step.run,
            outside: step.period.saturating_sub(step.run + before),
            coordination,
            updated: step.updated,
            replicas: times,
            overlap: overlap(replicas),
        }
    }
}

/// The time of a replica's callback by phase: the time outside of all others is computing.
fn time_in_callback(replica: &ReplicaSample) -> ByPhase<u64> {
    let compute = Phase::Compute as usize;
    let mut spent = replica.spent;
    let inside = spent.iter().sum::<u64>() - spent[compute];
    spent[compute] = replica.wall.saturating_sub(inside);
    spent
}

/// The work of the device whose replicas work longest. Replicas are dealt out to devices in turn.
fn busiest(replicas: &[ReplicaTimes], devices: u32) -> u64 {
    let devices = (devices as usize).clamp(1, replicas.len().max(1));
    let of_device = |first: usize| replicas.iter().skip(first).step_by(devices);
    let work = |first| of_device(first).map(|replica| replica.busy).sum();
    (0..devices).map(work).max().unwrap_or(0)
}

/// How far callbacks overlapped. It is not known if clocks were not read, or if callbacks took part
/// in merge calls, because then the program makes them wait for each other.
fn overlap(replicas: &[ReplicaSample]) -> Option<Overlap> {
    let met = |replica: &ReplicaSample| replica.spent[Phase::Wait as usize] > 0;
    if replicas.len() < 2 || replicas.iter().any(met) {
        return None;
    }
    let mut at_work = Vec::with_capacity(replicas.len());
    for replica in replicas {
        let clocks = replica.clocks?;
        at_work.push(replica.wall.min(clocks.on_processor + clocks.ready) as f64);
    }
    let begin = replicas.iter().map(|replica| replica.begun).min()?;
    let end = replicas
        .iter()
        .map(|replica| replica.begun + replica.wall)
        .max()?;
    let walls: u64 = replicas.iter().map(|replica| replica.wall).sum();
    let all: f64 = at_work.iter().sum();
    if end <= begin || walls == 0 || all == 0.0 {
        return None;
    }
    let least = at_work.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Overlap {
        at_work: all / (end - begin) as f64,
        blocked: 1.0 - all / walls as f64,
        least: least * replicas.len() as f64 / all,
    })
}

/// The median. For an even number of values, it is the upper of the two in the middle. There must
/// be at least one value.
fn median_of(steps: &[Step], value: &dyn Fn(&Step) -> u64) -> u64 {
    median(steps.iter().map(value).collect())
}

fn mean_of(steps: &[Step], value: &dyn Fn(&Step) -> u64) -> u64 {
    let sum: u128 = steps.iter().map(|step| u128::from(value(step))).sum();
    (sum / steps.len() as u128) as u64
}

/// The part of a step whose mean exceeds its median most, and by how much, if any does.
fn most_uneven(steps: &[Step]) -> Option<(&'static str, u64)> {
    let excess = |value: &dyn Fn(&Step) -> u64| {
        mean_of(steps, value).saturating_sub(median_of(steps, value))
    };
    let of_phase = |phase: Phase| {
        let longest = |step: &Step| {
            step.replicas
                .iter()
                .map(|replica| replica.spent[phase as usize])
                .max()
                .unwrap_or(0)
        };
        (phase.name(), excess(&longest))
    };
    // If one replica takes longer, the others wait, so waiting is named only if nothing else
    // explains the time.
    let waits = of_phase(Phase::Wait);
    let others = Phase::ALL
        .into_iter()
        .filter(|&phase| phase != Phase::Wait)
        .map(of_phase);
    let others = others.chain([(
        "the program, between the runs",
        excess(&|step| step.outside),
    )]);
    let longest = others
        .max_by_key(|&(_, excess)| excess)
        .filter(|&(_, most)| most >= waits.1 / 2);
    Some(longest.unwrap_or(waits)).filter(|&(_, excess)| excess > 0)
}

/// The medians of replica `at`.
fn replica_times(steps: &[Step], at: usize) -> ReplicaTimes {
    let ready = steps.iter().filter_map(|step| step.replicas[at].ready);
    let ready: Vec<u64> = ready.collect();
    ReplicaTimes {
        spent: std::array::from_fn(|phase| {
            median_of(steps, &|step| step.replicas[at].spent[phase])
        }),
        busy: median_of(steps, &|step| step.replicas[at].busy),
        unhampered: median_of(steps, &|step| step.replicas[at].unhampered),
        // Those of a few steps say nothing about the others.
        ready: (2 * ready.len() > steps.len()).then(|| median(ready)),
    }
}

/// The medians of the overlaps, if most steps have one.
fn median_overlap(steps: &[Step]) -> Option<Overlap> {
    let overlaps: Vec<Overlap> = steps.iter().filter_map(|step| step.overlap).collect();
    let median_of = |value: fn(&Overlap) -> f64| {
        let mut all: Vec<f64> = overlaps.iter().map(value).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    (2 * overlaps.len() > steps.len()).then(|| Overlap {
        at_work: median_of(|overlap| overlap.at_work),
        blocked: median_of(|overlap| overlap.blocked),
        least: median_of(|overlap| overlap.least),
    })
}

fn median(mut all: Vec<u64>) -> u64 {
    let middle = all.len() / 2;
    *all.select_nth_unstable(middle).1
}

/// `1 step`, `2 steps`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Nanoseconds as a readable text: three significant digits and a unit.
pub fn duration(nanoseconds: u64) -> String {
    let (amount, unit) = match nanoseconds {
        0 => return "0".to_owned(),
        1..1000 => return format!("{nanoseconds} ns"),
        1000..999_500 => (nanoseconds as f64 / 1e3, "\u{b5}s"),
        999_500..999_500_000 => (nanoseconds as f64 / 1e6, "ms"),
        _ => (nanoseconds as f64 / 1e9, "s"),
    };
    let decimals = match amount {
        amount if amount < 9.995 => 2,
        amount if amount < 99.95 => 1,
        _ => 0,
    };
    format!("{amount:.decimals$} {unit}")
}

#[cfg(test)]
mod tests;
