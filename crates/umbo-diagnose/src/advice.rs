//! Explains in text why a strategy is slower than its number of replicas allows.
//!
//! The functions are pure: they make text from a [`Summary`]. Each cause has its own condition on
//! shares of a step, so that irrelevant causes are not named. If one cause explains another, the
//! other one is not named: replicas that outnumber the processors also wait for each other.

use crate::libraries::{self, Library};
use crate::sample::Setup;
use crate::summary::{Summary, counted, duration};
use umbo_base::observe::phase::Phase;

/// The causes that keep replicas from being faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Cause {
    /// A step has so little work that distributing it takes longer than doing it.
    SmallStep,
    /// There are more replicas than processors.
    FewProcessors,
    /// Threads that do not belong to the library compete for the same processors.
    OtherThreads,
    /// The input is late.
    Input,
    /// One replica takes longer than the others.
    SlowReplica,
    /// The callbacks run one after the other.
    Serialised,
    /// The update takes long: memory limits it, or it is the largest part of a step.
    Update,
    /// Other processes use the processors that the replicas need.
    BusyMachine,
    /// Some steps take far longer than most.
    UnevenSteps,
    /// A computing library uses kernels that are older than the processor.
    OldKernels,
}

impl Cause {
    /// Whether the cause may come and go with the load of the machine.
    pub fn is_of_machine(self) -> bool {
        matches!(self, Cause::BusyMachine | Cause::UnevenSteps)
    }
}

/// A recommended change and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The cause that it concerns.
    pub cause: Cause,
    /// A text with figures.
    pub text: String,
}

/// Several replicas pay off if a step's work, of all replicas together, is more than this.
const SMALL_WORK: u64 = 100_000;

/// Updates that move fewer bytes than this fit into caches.
const BEYOND_CACHES: u64 = 16 << 20;

/// The recommended changes, the most important first. It is empty if no cause stands out.
pub fn of(summary: &Summary) -> Vec<Advice> {
    if summary.replicas.is_empty() || summary.period == 0 {
        return Vec::new();
    }
    let few_processors = few_processors(summary);
    // Replicas that take turns on a processor wait for each other in any case.
    let of_replicas = match &few_processors {
        Some(_) => None,
        None => small_step(summary)
            .or_else(|| serialised(summary))
            .or_else(|| slow_replica(summary)),
    };
    let all = [
        old_kernels(summary),
        few_processors,
        of_replicas,
        other_threads(summary),
        input(summary),
        update(summary),
        busy_machine(summary),
        uneven_steps(summary),
    ];
    all.into_iter().flatten().collect()
}

/// The report as one text: figures and recommended changes.
pub fn report(summary: &Summary, advice: &[Advice]) -> String {
    let mut text = summary.table();
    text.push_str(match advice {
        [] => "\nNothing stands out that would make it faster.\n",
        _ => "\nWhat to change:\n",
    });
    for advice in advice {
        text.push_str(&format!("- {}\n", advice.text));
    }
    if !summary.notes.is_empty() {
        text.push_str("\nWorth a comparison:\n");
    }
    for note in &summary.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

/// The report as one line.
pub fn in_one_line(summary: &Summary, advice: &[Advice]) -> String {
    let texts: Vec<&str> = advice.iter().map(|advice| advice.text.as_str()).collect();
    format!(
        "{} measured, {} each: {}",
        counted(summary.measured, "step"),
        duration(summary.period),
        match &*texts {
            [] => "nothing stands out that would make it faster".to_owned(),
            texts => texts.join("; "),
        }
    )
}

/// Whether `part` is at least `hundredths` hundredths of `whole`.
fn reaches(part: u64, hundredths: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(hundredths)
}

fn some(cause: Cause, text: String) -> Option<Advice> {
    Some(Advice { cause, text })
}

fn old_kernels(summary: &Summary) -> Option<Advice> {
    let texts = libraries::old_kernels(&summary.libraries);
    if texts.is_empty() {
        None
    } else {
        some(Cause::OldKernels, texts.join("; "))
    }
}

fn few_processors(summary: &Summary) -> Option<Advice> {
    let Setup {
        cpu_devices,
        processors,
        ..
    } = summary.setup;
    if cpu_devices <= processors || processors == 0 {
        return None;
    }
    let at_once = at_once(summary);
    let has = counted(processors.into(), "processor");
    some(
        Cause::FewProcessors,
        format!("{at_once} on {has} take turns: use at most {processors}"),
    )
}

/// The units that compute on CPUs at the same time: replicas, or devices that several replicas
/// share.
fn at_once(summary: &Summary) -> String {
    counted(summary.setup.cpu_devices.into(), unit(summary))
}

/// A unit that computes one thing at a time: a replica, or a device that several replicas share.
fn unit(summary: &Summary) -> &'static str {
    let is_shared = summary.setup.devices < summary.setup.replicas;
    if is_shared {
        "compute device"
    } else {
        "replica"
    }
}

fn small_step(summary: &Summary) -> Option<Advice> {
    let work = summary.work();
    let busiest = summary.busiest();
    let coordination = summary.coordination;
    let pays = reaches(work, 110, busiest + coordination);
    if summary.setup.devices < 2
        || work > SMALL_WORK
        || pays
        || !reaches(coordination, 20, summary.period)
    {
        return None;
    }
    some(
        Cause::SmallStep,
        format!(
            "a step's work is {}, coordination {}: use 1 {}, or larger batches",
            duration(work),
            duration(coordination),
            unit(summary)
        ),
    )
}

fn serialised(summary: &Summary) -> Option<Advice> {
    let overlap = summary.overlap?;
    let Setup {
        replicas,
        devices,
        cpu_devices,
        ..
    } = summary.setup;
    let side_by_side = f64::from(devices);
    if cpu_devices != devices
        || devices < 2
        || !(0.7..1.0 + 0.4 * (side_by_side - 1.0)).contains(&overlap.at_work)
        || overlap.blocked < 0.15
        || overlap.least < 0.3
        || !reaches(summary.busiest(), 30, summary.period)
    {
        return None;
    }
    some(
        Cause::Serialised,
        format!(
            "your callbacks wait for a lock: of {replicas} replicas {:.1} work at a time, and \
             {:.0} % of the callbacks' time is spent waiting. If it is an interpreter's lock, \
             release it around the computation, or call back into compiled code; else let each \
             replica lock its own data",
            overlap.at_work,
            100.0 * overlap.blocked
        ),
    )
}

fn slow_replica(summary: &Summary) -> Option<Advice> {
    let (slow, slowest) = summary
        .replicas
        .iter()
        .enumerate()
        .max_by_key(|(_, replica)| replica.unhampered)?;
    let mut others: Vec<u64> = summary
        .replicas
        .iter()
        .enumerate()
        .filter(|&(at, _)| at != slow)
        .map(|(_, replica)| replica.unhampered)
        .collect();
    others.sort_unstable();
    let usual = *others.get(others.len() / 2)?;
    let lost = slowest.unhampered.saturating_sub(usual);
    if lost < 20_000
        || !reaches(slowest.unhampered, 150, usual)
        || !reaches(lost, 30, slowest.unhampered)
        || !reaches(slowest.busy, 30, summary.period)
    {
        return None;
    }
    some(
        Cause::SlowReplica,
        format!(
            "one replica is slow: replica {slow} computes {}, the others {}, and they wait for \
             it. Give all the same number of examples and the same work; if they have, look at \
             what else its device does",
            duration(slowest.unhampered),
            duration(usual)
        ),
    )
}

fn other_threads(summary: &Summary) -> Option<Advice> {
    fighting_threads(summary).and_then(|text| some(Cause::OtherThreads, text))
}

/// The advice about threads that are not the library's and compete with the replicas. Of a summary
/// it needs the setup, the other threads, the processor time of the library's, and the computing
/// libraries.
pub(super) fn fighting_threads(summary: &Summary) -> Option<String> {
    let all: u64 = summary.others.iter().map(|other| other.nanoseconds).sum();
    let busy: Vec<_> = summary
        .others
        .iter()
        .filter(|other| reaches(other.nanoseconds, 10, all))
        .collect();
    let Setup {
        cpu_devices,
        processors,
        ..
    } = summary.setup;
    if !reaches(all, 25, summary.own_on_processor)
        || all == 0
        || busy.len() as u64 + u64::from(cpu_devices) <= u64::from(processors)
    {
        return None;
    }
    let mut names: Vec<&str> = busy.iter().map(|other| other.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    Some(format!(
        "{} that are not Umbo's ({}) compete with {} for {}: they used {} of processor time, \
         Umbo's {}. {}",
        counted(busy.len() as u64, "thread"),
        names.join(", "),
        at_once(summary),
        counted(processors.into(), "processor"),
        duration(all),
        duration(summary.own_on_processor),
        fewer_threads(summary)
    ))
}

/// How the threads of computing libraries become as few as there are processors for.
fn fewer_threads(summary: &Summary) -> String {
    let Setup {
        cpu_devices,
        processors,
        ..
    } = summary.setup;
    let share = processors / cpu_devices.max(1);
    let too_many = |library: &&Library| library.has_too_many_threads(cpu_devices, processors);
    let mut named: Vec<String> = Vec::new();
    let mut variables: Vec<String> = Vec::new();
    for library in summary.libraries.iter().filter(too_many) {
        let threads = u64::from(library.threads.unwrap_or(1));
        let maker = library.maker.name();
        let file = &library.file;
        named.push(format!(
            "{maker} ({file}) computes with {}",
            counted(threads, "thread")
        ));
        variables.push(format!("{}={}", library.maker.variable(), share.max(1)));
    }
    variables.dedup();
    match named.is_empty() {
        true => "If they are those of BLAS or OpenMP, set OPENBLAS_NUM_THREADS=1, \
                 MKL_NUM_THREADS=1 or OMP_NUM_THREADS=1; if they load data, use fewer replicas"
            .into(),
        false => format!(
            "{} in each of them: set {}, or the number in replica_thread_start",
            named.join(" and "),
            variables.join(" and ")
        ),
    }
}

fn input(summary: &Summary) -> Option<Advice> {
    let input = summary.central(Phase::Input);
    if input < 5_000 || !reaches(input, 25, summary.period) {
        return None;
    }
    some(
        Cause::Input,
        format!(
            "input is the bottleneck: {} of a step's {} are spent on it: prefetch, map in \
             parallel, or cache what it makes",
            duration(input),
            duration(summary.period)
        ),
    )
}

fn update(summary: &Summary) -> Option<Advice> {
    let update = summary.central(Phase::Update);
    let period = duration(summary.period);
    let takes = duration(update);
    if !reaches(update, 30, summary.period) {
        return None;
    }
    if summary.updated >= BEYOND_CACHES {
        let gigabytes = summary.updated as f64 / update.max(1) as f64;
        return some(
            Cause::Update,
            format!(
                "the update is at the memory's speed: it moves {:.0} MB a step at {gigabytes:.1} \
                 GB/s and takes {takes} of a step's {period}: use larger batches, or accumulate \
                 gradients over several steps",
                summary.updated as f64 / 1e6,
            ),
        );
    }
    let others = Phase::ALL
        .into_iter()
        .filter(|phase| !matches!(phase, Phase::Update | Phase::Wait));
    let others = others
        .map(|phase| summary.longest(phase))
        .chain([summary.outside]);
    if summary.updated == 0 || update < 5_000 || others.max() >= Some(update) {
        return None;
    }
    some(
        Cause::Update,
        format!(
            "the update is the greatest part of a step: {takes} of {period}. It is made once for \
             all replicas, so more of them do not make it faster: use larger batches, or \
             accumulate gradients over several steps"
        ),
    )
}

/// Uses the kernel's figures about the machine or, without them, those of the replicas' threads.
fn busy_machine(summary: &Summary) -> Option<Advice> {
    let needs = summary.setup.cpu_devices;
    let ready = summary
        .replicas
        .iter()
        .filter_map(|replica| replica.ready)
        .max()
        .unwrap_or(0);
    let why = match summary.load.filter(|load| load.is_busy_for(needs)) {
        Some(load) => format!(
            "{}, which {} needed",
            load.in_words("used"),
            at_once(summary)
        ),
        None if reaches(ready, 25, summary.period)
            && ready > 0
            && few_processors(summary).is_none()
            && other_threads(summary).is_none() =>
        {
            let ready = duration(ready);
            let period = duration(summary.period);
            format!("a replica was ready and had no processor for {ready} of a step's {period}")
        }
        None => return None,
    };
    let advice = "Measure again when it is quiet, or use fewer replicas";
    some(
        Cause::BusyMachine,
        format!("the machine was busy: {why}. {advice}"),
    )
}

fn uneven_steps(summary: &Summary) -> Option<Advice> {
    let (place, longer) = summary.longer.filter(|_| summary.is_uneven())?;
    some(
        Cause::UnevenSteps,
        format!(
            "some steps take far longer than most: median {}, mean {}. What differs \
             most is {place}, {} more in the mean: look at what the program or the machine does \
             now and then",
            duration(summary.period),
            duration(summary.mean),
            duration(longer)
        ),
    )
}

#[cfg(test)]
mod tests;
