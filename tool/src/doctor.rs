//! `umbo doctor`: checks everything on this machine that training needs.

mod speed;
mod topology;

use std::env;
use std::fmt::Write;
use std::path::Path;

use lexopt::Arg::{Long, Short};
use serde_json::{Value, json};
use umbo_core::cluster::{mpi, nccl};
use umbo_core::device::{DeviceId, DeviceKind, MemoryInfo, registry};
use umbo_core::diagnose::libraries::{self, Vectors};
use umbo_core::diagnose::machine::Load;
use umbo_core::diagnose::processors;
use umbo_core::error::Result;
use umbo_core::executor::affinity::{self, CpuSet};
use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::system;
use umbo_core::system::memory::LARGE_PAGES_COMMAND;
use umbo_core::system::processors::Cache;

use crate::arguments::{self, Bytes, number};
use crate::bench::machine;
use crate::failure::Failure;
use crate::{Report, bytes_text, gpu, json_text, trace};

pub const HELP: &str = "\
Usage: umbo doctor [OPTIONS] [FILE]

Checks what training on this machine needs and says what is ok, what is worth knowing (note)
and what is wrong (problem). Ends with 1 if there is a problem.

With FILE, a trace that umbo_trace_start() or UMBO_TRACE wrote, it says what the steps in it spend
their time on, and what keeps them from being faster.

With --gpu it examines each GPU instead: whether its results are bit-identical to the CPU's and keep
their order, and how fast its memory and its bus are. Please paste that report into an issue.

Options:
      --gpu         examine the GPUs
      --bytes SIZE  with --gpu: the blocks that are measured (64 to 64G; default: 256M)
      --json        print one JSON object
  -h, --help        show this help
";

pub fn run(mut arguments: lexopt::Parser) -> std::result::Result<Report, Failure> {
    let mut json = false;
    let mut gpu = false;
    let mut bytes = None;
    let mut of_trace = None;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("json") => json = true,
            Long("gpu") => gpu = true,
            Long("bytes") => bytes = Some(number(&mut arguments, "bytes", Bytes::BLOCKS)?),
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            lexopt::Arg::Value(path) if of_trace.is_none() => {
                of_trace = Some(arguments::input(path)?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if of_trace.is_some() && gpu {
        return Err(Failure::wrong(
            "--gpu and a trace are two examinations; ask for one",
        ));
    }
    if bytes.is_some() && !gpu {
        return Err(Failure::wrong(
            "--bytes is for --gpu; leave it out, or ask for --gpu",
        ));
    }
    if let Some(path) = of_trace {
        return examine_trace(&path, json);
    }
    if gpu {
        return Ok(gpu::examine(bytes.unwrap_or(Bytes(256 << 20)).0, json));
    }
    let findings = examine();
    let fine = findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Problem);
    let text = if json {
        json_text(&as_json(&findings, fine))
    } else {
        as_text(&findings)
    };
    Ok(Report { text, fine })
}

/// A report on the steps of a trace. Advice does not count as a problem.
fn examine_trace(path: &Path, json: bool) -> std::result::Result<Report, Failure> {
    let (text, fine) = trace::report::report(&trace::file::read(path)?);
    Ok(Report::fine(match json {
        true => json_text(&json!({ "ok": fine, "report": text })),
        false => text,
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    /// It works, but the user may not expect it, or may want to change it.
    Note,
    Problem,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Fine => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "problem",
        }
    }
}

#[derive(Debug)]
struct Finding {
    verdict: Verdict,
    subject: &'static str,
    text: String,
}

impl Finding {
    fn new(verdict: Verdict, subject: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            verdict,
            subject,
            text: text.into(),
        }
    }
}

fn examine() -> Vec<Finding> {
    let processors = affinity::process_processors();
    let mut findings = vec![
        version(),
        instructions(),
        processors_finding(
            processors,
            system::processors::online_set(),
            affinity::usable(),
        ),
        speed::hyperthreads(&processors::siblings_of(processors)),
        topology::caches(&caches_of(processors)),
        topology::memory_nodes(&system::processors::memory_nodes(), processors),
        speed::frequencies(&processors::frequencies_of(processors)),
        load(machine::load_now(), system::usage::load_averages()),
        binding(),
        central_work(),
        other_pools(processors.count(), env::var("OMP_NUM_THREADS").ok()),
        memory(registry::memory_info(DeviceId::HOST)),
        huge_pages(system::memory::large_pages().as_deref()),
        gpus(
            registry::REGISTRY.physical_count(DeviceKind::Gpu),
            registry::REGISTRY.no_gpu_reason(),
        ),
        joins_ranks("MPI", "UMBO_MPI_LIBRARY", mpi::find()),
        joins_ranks("NCCL", "UMBO_NCCL_LIBRARY", nccl::find()),
    ];
    findings.extend(speed::computing_libraries(
        &libraries::loaded(),
        Vectors::of_processor(),
    ));
    findings
}

/// The caches of the first of these processors.
fn caches_of(processors: &CpuSet) -> Vec<Cache> {
    let first = processors.processors().next();
    first.map_or_else(Vec::new, system::processors::caches)
}

/// The finding about the workers and instructions of reductions, gathers and updates.
fn central_work() -> Finding {
    let workers = workers::count();
    let instructions = Instructions::chosen().set().name();
    let text = format!("{workers} workers, {instructions} instructions");
    Finding::new(Verdict::Fine, "central work", text)
}

/// The finding about the threads that a computing library would use in the callback of each
/// replica. OpenBLAS, MKL and BLIS have their own variables. If these are not set, they use
/// OpenMP's variables.
fn other_pools(processors: usize, threads: Option<String>) -> Finding {
    let subject = "other libraries";
    match threads {
        Some(threads) => Finding::new(
            Verdict::Fine,
            subject,
            format!(
                "OMP_NUM_THREADS={threads}: so many threads compute in each replica's callback"
            ),
        ),
        None if processors < 2 => Finding::new(Verdict::Fine, subject, "one processor, one thread"),
        None => Finding::new(
            Verdict::Note,
            subject,
            format!(
                "OMP_NUM_THREADS is not set: OpenMP, OpenBLAS, MKL and BLIS compute with \
                 {processors} threads in each replica's callback. With several replicas set it, \
                 or OPENBLAS_NUM_THREADS and MKL_NUM_THREADS, to the processors that each replica \
                 has"
            ),
        ),
    }
}

fn version() -> Finding {
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let architecture = std::env::consts::ARCH;
    let system = std::env::consts::OS;
    let text = format!(
        "umbo {}, {build}, {architecture} {system}",
        env!("CARGO_PKG_VERSION")
    );
    if cfg!(debug_assertions) {
        let text = format!("{text}: a debug build is many times slower; build with --release");
        return Finding::new(Verdict::Note, "version", text);
    }
    Finding::new(Verdict::Fine, "version", text)
}

/// The finding about the processor's vector instructions, which determine how fast the central work
/// can be.
fn instructions() -> Finding {
    #[cfg(target_arch = "x86_64")]
    let present = [
        ("AVX2", is_x86_feature_detected!("avx2")),
        ("FMA", is_x86_feature_detected!("fma")),
        ("F16C", is_x86_feature_detected!("f16c")),
        ("AVX-512F", is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(target_arch = "aarch64")]
    let present = [("NEON", std::arch::is_aarch64_feature_detected!("neon"))];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let present: [(&str, bool); 0] = [];
    let names: Vec<&str> = present
        .iter()
        .filter(|each| each.1)
        .map(|each| each.0)
        .collect();
    if names.is_empty() {
        let text = "none of those that umbo looks for; central work runs at its portable speed";
        return Finding::new(Verdict::Note, "vector instructions", text);
    }
    Finding::new(Verdict::Fine, "vector instructions", names.join(", "))
}

/// The finding about processors. `quota` is the processor time that the system grants, as a number
/// of processors, if it is limited.
fn processors_finding(processors: &CpuSet, online: Option<CpuSet>, quota: usize) -> Finding {
    let count = processors.count();
    let text = format!("{count} for this process: {processors}");
    if quota < count {
        let text = format!(
            "{text}, but a quota grants the time of {quota} only; more replicas than that wait \
             for each other"
        );
        return Finding::new(Verdict::Note, "processors", text);
    }
    match online {
        Some(online) if online != *processors => {
            let text = format!(
                "{text}, while {online} are online; taskset, a cpuset or OMP_PROC_BIND keeps it \
                 from the others"
            );
            Finding::new(Verdict::Note, "processors", text)
        }
        _ => Finding::new(Verdict::Fine, "processors", text),
    }
}

/// The finding about the present use of the processors by others, and the system's averages: how
/// many threads were ready or on a processor in the last 1, 5 and 15 minutes.
fn load(now: Option<Load>, averages: Option<[f64; 3]>) -> Finding {
    let mut text = match now {
        Some(load) => load.in_words("use"),
        None => "the system does not say what others use of the processors".to_owned(),
    };
    if let Some([minute, five, fifteen]) = averages {
        text += &format!("; load average {minute:.2}, {five:.2}, {fifteen:.2}");
    }
    let is_above = |load: Load| averages.is_some_and(|[last, ..]| last > load.processors.into());
    let is_high = now.is_some_and(is_above);
    if now.is_some_and(|load| load.is_busy_for(load.processors)) || is_high {
        text += ": steps take longer, and measurements taken now say little";
        return Finding::new(Verdict::Note, "load", text);
    }
    Finding::new(Verdict::Fine, "load", text)
}

fn binding() -> Finding {
    let bound = affinity::current_thread_processors()
        .and_then(|processors| affinity::bind_current_thread(&processors));
    match bound {
        Ok(()) => Finding::new(Verdict::Fine, "thread binding", "threads can be bound"),
        Err(error) => Finding::new(
            Verdict::Problem,
            "thread binding",
            format!("{error}; create strategies that leave threads unbound"),
        ),
    }
}

fn memory(info: Result<MemoryInfo>) -> Finding {
    let info = match info {
        Ok(info) => info,
        Err(error) => return Finding::new(Verdict::Problem, "memory", error.to_string()),
    };
    let text = format!(
        "{} of {} available",
        bytes_text(info.available_bytes),
        bytes_text(info.total_bytes)
    );
    if info.available_bytes < info.total_bytes / 10 {
        let text = format!("{text}: less than a tenth; the system may swap or kill programs");
        return Finding::new(Verdict::Problem, "memory", text);
    }
    Finding::new(Verdict::Fine, "memory", text)
}

/// The finding about huge pages, from the result of [`system::memory::large_pages`].
fn huge_pages(choice: Option<&str>) -> Finding {
    let subject = "huge pages";
    match choice {
        Some(choice @ ("always" | "madvise")) => Finding::new(
            Verdict::Fine,
            subject,
            format!("transparent huge pages: {choice}"),
        ),
        Some(choice) => Finding::new(
            Verdict::Note,
            subject,
            format!(
                "transparent huge pages: {choice}; updates of large models are about a tenth \
                 slower. As root: {LARGE_PAGES_COMMAND}"
            ),
        ),
        None => Finding::new(
            Verdict::Note,
            subject,
            "this kernel has no transparent huge pages",
        ),
    }
}

fn gpus(count: u32, no_gpu_reason: Option<&str>) -> Finding {
    match no_gpu_reason {
        None => Finding::new(
            Verdict::Note,
            "GPUs",
            format!(
                "{count} found; umbo's GPU code is new, and its tests ran on one model only: see \
                 what umbo doctor --gpu says"
            ),
        ),
        Some(reason) => Finding::new(
            Verdict::Fine,
            "GPUs",
            format!("none: {reason}; CPU training needs none"),
        ),
    }
}

/// The finding about a library that connects ranks, which only trainings with several processes
/// need. If `variable` names such a library, the user wants it.
fn joins_ranks(subject: &'static str, variable: &str, found: Result<()>) -> Finding {
    let none = || {
        format!(
            "none; only several processes need one. Set {variable} to a library to see whether it \
             fits"
        )
    };
    match (found, env::var_os(variable)) {
        (Ok(()), _) => Finding::new(Verdict::Fine, subject, "found; ranks can be joined by it"),
        (Err(_), None) => Finding::new(Verdict::Fine, subject, none()),
        (Err(error), Some(_)) => Finding::new(Verdict::Note, subject, error.to_string()),
    }
}

fn as_json(findings: &[Finding], fine: bool) -> Value {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "verdict": finding.verdict.name(),
                "subject": finding.subject,
                "text": finding.text,
            })
        })
        .collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "ok": fine, "findings": findings })
}

fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding {
        verdict,
        subject,
        text: found,
    } in findings
    {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<8} {subject:<20} {found}", verdict.name());
    }
    let count = |verdict| {
        findings
            .iter()
            .filter(|each| each.verdict == verdict)
            .count()
    };
    let _ = match (count(Verdict::Problem), count(Verdict::Note)) {
        (0, 0) => writeln!(text, "\nEverything is ok."),
        (0, notes) => writeln!(text, "\nNothing is wrong. Worth knowing: {notes}."),
        (problems, notes) => {
            writeln!(text, "\nProblems: {problems}. Also worth knowing: {notes}.")
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_core::error::Error;

    #[track_caller]
    pub(super) fn check(finding: &Finding, verdict: Verdict, part: &str) {
        assert_eq!(finding.verdict, verdict, "{finding:?}");
        assert!(
            finding.text.contains(part),
            "no '{part}' in: {}",
            finding.text
        );
    }

    #[test]
    fn withheld_processors_are_noted() {
        let two: CpuSet = [0, 1].into_iter().collect();
        check(
            &processors_finding(&two, Some(two.clone()), 2),
            Verdict::Fine,
            "2 for this process: 0-1",
        );
        check(&processors_finding(&two, None, 2), Verdict::Fine, "0-1");
        check(
            &processors_finding(&two, Some((0..8).collect()), 2),
            Verdict::Note,
            "0-7 are online",
        );
        check(
            &processors_finding(&two, Some(two.clone()), 1),
            Verdict::Note,
            "the time of 1",
        );
    }

    #[test]
    fn a_busy_machine_is_worth_knowing() {
        let processes = |others| {
            Some(Load {
                others,
                processors: 2,
            })
        };
        let quiet = Some([0.1, 0.2, 0.3]);
        check(
            &load(processes(0.0), quiet),
            Verdict::Fine,
            "load average 0.10, 0.20, 0.30",
        );
        check(
            &load(processes(1.5), quiet),
            Verdict::Note,
            "use 1.5 of 2 processors",
        );
        // If two processes take turns, the machine may look quiet for a tenth of a second.
        check(
            &load(processes(0.0), Some([16.1, 9.0, 2.0])),
            Verdict::Note,
            "load average 16.1",
        );
        check(&load(None, None), Verdict::Fine, "does not say");
        let all = as_json(&examine(), true);
        let subjects = all["findings"].as_array().unwrap().iter();
        assert_eq!(
            subjects
                .filter(|finding| finding["subject"] == "load")
                .count(),
            1,
            "{all}"
        );
    }

    #[test]
    fn threads_of_other_libraries_are_worth_knowing() {
        check(
            &other_pools(4, None),
            Verdict::Note,
            "compute with 4 threads",
        );
        check(&other_pools(1, None), Verdict::Fine, "one thread");
        check(
            &other_pools(4, Some("2".into())),
            Verdict::Fine,
            "OMP_NUM_THREADS=2",
        );
    }

    #[test]
    fn scarce_or_unknown_memory_is_a_problem() {
        let info = |available_bytes| {
            Ok(MemoryInfo {
                total_bytes: 1000,
                available_bytes,
            })
        };
        check(&memory(info(100)), Verdict::Fine, "100 bytes of 1000 bytes");
        check(&memory(info(99)), Verdict::Problem, "less than a tenth");
        check(
            &memory(Err(Error::Unavailable("who knows".into()))),
            Verdict::Problem,
            "who knows",
        );
    }

    #[test]
    fn a_system_that_gives_no_huge_pages_is_worth_knowing() {
        check(&huge_pages(Some("always")), Verdict::Fine, "always");
        check(&huge_pages(Some("madvise")), Verdict::Fine, "madvise");
        check(&huge_pages(Some("never")), Verdict::Note, "echo madvise");
        check(&huge_pages(None), Verdict::Note, "no transparent");
    }

    #[test]
    fn what_joins_ranks_is_not_needed() {
        let missing = || Err(Error::Unavailable("no such file".into()));
        let unset = "UMBO_OF_NOBODY";
        let set = "PATH";
        check(
            &joins_ranks("MPI", set, Ok(())),
            Verdict::Fine,
            "can be joined",
        );
        check(
            &joins_ranks("NCCL", unset, missing()),
            Verdict::Fine,
            "Set UMBO_OF_NOBODY",
        );
        check(
            &joins_ranks("NCCL", set, missing()),
            Verdict::Note,
            "no such file",
        );
    }

    #[test]
    fn gpus_are_not_promised() {
        check(&gpus(2, None), Verdict::Note, "umbo doctor --gpu");
        check(&gpus(0, Some("no driver")), Verdict::Fine, "no driver");
    }

    #[test]
    fn the_last_line_sums_up() {
        let finding = |verdict| Finding::new(verdict, "subject", "text");
        let fine = finding(Verdict::Fine);
        let note = finding(Verdict::Note);
        let problem = finding(Verdict::Problem);
        let last = |findings: &[Finding]| as_text(findings).lines().last().unwrap().to_owned();
        let findings = [problem, note, fine];
        assert_eq!(last(&findings), "Problems: 1. Also worth knowing: 1.");
        assert_eq!(last(&findings[1..]), "Nothing is wrong. Worth knowing: 1.");
        assert_eq!(last(&findings[2..]), "Everything is ok.");
        assert_eq!(
            as_json(&findings, false)["findings"][0]["verdict"],
            "problem"
        );
    }
}
