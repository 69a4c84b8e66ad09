//! Tests of the advice.

use super::*;
use crate::libraries::Maker;
use crate::machine::Load;
use crate::processes::Other;
use crate::summary::{Overlap, ReplicaTimes};

/// A summary of two replicas that compute side by side for two milliseconds.
fn healthy() -> Summary {
    let mut replica = ReplicaTimes {
        busy: 2_000_000,
        unhampered: 2_000_000,
        ..ReplicaTimes::default()
    };
    replica.spent[Phase::Compute as usize] = 2_000_000;
    Summary {
        setup: Setup {
            replicas: 2,
            devices: 2,
            cpu_devices: 2,
            processors: 2,
        },
        measured: 100,
        seen: 100,
        period: 2_200_000,
        run: 2_100_000,
        coordination: 5_000,
        replicas: vec![replica; 2],
        overlap: Some(Overlap {
            at_work: 1.9,
            blocked: 0.01,
            least: 0.95,
        }),
        own_on_processor: 400_000_000,
        ..Summary::default()
    }
}

fn replica(summary: &mut Summary, at: usize, nanoseconds: u64) {
    let replica = &mut summary.replicas[at];
    (replica.busy, replica.unhampered) = (nanoseconds, nanoseconds);
    replica.spent[Phase::Compute as usize] = nanoseconds;
}

fn other(name: &str, nanoseconds: u64) -> Other {
    Other {
        thread: 1,
        name: name.into(),
        nanoseconds,
    }
}

#[track_caller]
fn names(summary: &Summary, cause: Cause, part: &str) {
    let found = of(summary);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].cause, cause, "{found:?}");
    assert!(
        found[0].text.contains(part),
        "no '{part}' in: {}",
        found[0].text
    );
    assert!(report(summary, &found).contains(&found[0].text));
    assert!(in_one_line(summary, &found).contains(&found[0].text));
}

#[track_caller]
fn is_silent(summary: &Summary) {
    let found = of(summary);
    assert!(found.is_empty(), "{found:?}");
    assert!(report(summary, &found).contains("Nothing stands out"));
    assert!(in_one_line(summary, &found).contains("nothing stands out"));
}

#[test]
fn replicas_that_work_well_get_no_advice() {
    is_silent(&healthy());
    is_silent(&Summary::default());
}

#[test]
fn notes_are_no_advice() {
    let mut summary = healthy();
    summary.notes = vec!["the processors sleep".into()];
    is_silent(&summary);
    let text = report(&summary, &[]);
    assert!(
        text.ends_with("\nWorth a comparison:\n- the processors sleep\n"),
        "{text}"
    );
    assert!(!in_one_line(&summary, &[]).contains("sleep"));
}

#[test]
fn small_steps_get_the_advice_of_one_replica() {
    let mut summary = healthy();
    (summary.period, summary.run, summary.coordination) = (3_100, 3_000, 1_500);
    replica(&mut summary, 0, 1_500);
    replica(&mut summary, 1, 1_500);
    summary.overlap = None;
    names(
        &summary,
        Cause::SmallStep,
        "a step's work is 3.00 \u{b5}s, coordination 1.50 \u{b5}s: use 1 replica",
    );
    // With twenty times the work, several replicas pay off.
    replica(&mut summary, 0, 30_000);
    replica(&mut summary, 1, 30_000);
    (summary.period, summary.run) = (31_600, 31_500);
    is_silent(&summary);
    // A single replica needs no coordination.
    let mut alone = healthy();
    alone.replicas.truncate(1);
    (
        alone.setup.replicas,
        alone.setup.devices,
        alone.setup.cpu_devices,
    ) = (1, 1, 1);
    replica(&mut alone, 0, 1_000);
    (alone.period, alone.run, alone.coordination, alone.overlap) = (3_000, 2_900, 1_900, None);
    is_silent(&alone);
}

#[test]
fn replicas_that_outnumber_processors_get_one_advice() {
    let mut summary = healthy();
    (
        summary.setup.replicas,
        summary.setup.devices,
        summary.setup.cpu_devices,
    ) = (4, 4, 4);
    summary.replicas = vec![summary.replicas[0]; 4];
    replica(&mut summary, 3, 9_000_000);
    summary.overlap = Some(Overlap {
        at_work: 1.0,
        blocked: 0.5,
        least: 1.0,
    });
    names(&summary, Cause::FewProcessors, "4 replicas on 2 processors");
    // Replicas on GPUs need no processor.
    summary.setup.cpu_devices = 0;
    summary.overlap = None;
    replica(&mut summary, 3, 2_000_000);
    is_silent(&summary);
}

#[test]
fn threads_of_others_are_named() {
    let mut summary = healthy();
    summary.others = vec![other("blas", 200_000_000), other("blas", 150_000_000)];
    names(&summary, Cause::OtherThreads, "OMP_NUM_THREADS=1");
    names(
        &summary,
        Cause::OtherThreads,
        "2 threads that are not Umbo's (blas)",
    );
    // A library that says how many threads it has is named with what makes them fewer.
    summary.libraries = vec![Library {
        maker: Maker::OpenMp,
        file: "libgomp.so.1".into(),
        kernels: None,
        chooses: false,
        threads: Some(2),
    }];
    let named = "OpenMP (libgomp.so.1) computes with 2 threads in each of them: set \
                 OMP_NUM_THREADS=1, or";
    names(&summary, Cause::OtherThreads, named);
    // If there are processors for all replicas, they do not compete.
    summary.setup.processors = 8;
    is_silent(&summary);
    summary.setup.processors = 2;
    summary.others = vec![other("timer", 1_000_000)];
    is_silent(&summary);
}

#[test]
fn late_input_is_named() {
    let mut summary = healthy();
    for replica in &mut summary.replicas {
        replica.spent[Phase::Input as usize] = 3_000_000;
    }
    summary.period += 3_000_000;
    names(&summary, Cause::Input, "3.00 ms of a step's 5.20 ms");
    summary.period *= 4;
    is_silent(&summary);
}

#[test]
fn a_slow_replica_is_named() {
    let mut summary = healthy();
    replica(&mut summary, 1, 5_000_000);
    summary.period = 5_200_000;
    names(
        &summary,
        Cause::SlowReplica,
        "replica 1 computes 5.00 ms, the others 2.00 ms",
    );
    // The replica does not cause the time in which its thread is kept from a processor.
    summary.replicas[1].unhampered = 2_100_000;
    is_silent(&summary);
}

#[test]
fn a_lock_around_callbacks_is_named() {
    let mut summary = healthy();
    replica(&mut summary, 1, 4_000_000);
    summary.period = 4_200_000;
    summary.overlap = Some(Overlap {
        at_work: 1.02,
        blocked: 0.33,
        least: 0.98,
    });
    names(
        &summary,
        Cause::Serialised,
        "of 2 replicas 1.0 work at a time",
    );
    // If no replica works at that time, the blocked ones do not wait for a lock that another
    // one holds.
    summary.overlap = Some(Overlap {
        at_work: 0.1,
        blocked: 0.9,
        least: 0.98,
    });
    replica(&mut summary, 1, 2_000_000);
    is_silent(&summary);
}

#[test]
fn an_update_at_the_memory_s_speed_is_named() {
    let mut summary = healthy();
    for replica in &mut summary.replicas {
        replica.spent[Phase::Update as usize] = 8_000_000;
    }
    (summary.period, summary.updated) = (10_200_000, 100_000_000);
    names(&summary, Cause::Update, "moves 100 MB a step at 12.5 GB/s");
    // Memory does not limit an update that fits into caches.
    summary.updated = 1_000_000;
    names(
        &summary,
        Cause::Update,
        "the greatest part of a step: 8.00 ms of 10.2 ms",
    );
    // A commit without an update is not reported as an update.
    summary.updated = 0;
    is_silent(&summary);
    summary.updated = 1_000_000;
    // No advice follows if the callbacks, or the other work of the program, take as long as the
    // update.
    (0..2).for_each(|at| replica(&mut summary, at, 8_000_000));
    is_silent(&summary);
    (0..2).for_each(|at| replica(&mut summary, at, 2_000_000));
    summary.outside = 9_000_000;
    is_silent(&summary);
}

#[test]
fn a_busy_machine_is_named() {
    let mut summary = healthy();
    summary.load = Some(Load {
        others: 1.5,
        processors: 2,
    });
    names(
        &summary,
        Cause::BusyMachine,
        "used 1.5 of 2 processors, which 2 replicas needed",
    );
    summary.load = Some(Load {
        others: 1.5,
        processors: 8,
    });
    is_silent(&summary);
    // If the kernel has no figures, those of the threads are used.
    summary.load = None;
    summary.replicas[1].ready = Some(1_000_000);
    names(
        &summary,
        Cause::BusyMachine,
        "no processor for 1.00 ms of a step's 2.20 ms",
    );
    summary.replicas[1].ready = Some(100_000);
    is_silent(&summary);
    // If threads of the program are named, other processes are not.
    summary.replicas[1].ready = Some(1_000_000);
    summary.others = vec![other("blas", 200_000_000), other("blas", 150_000_000)];
    names(&summary, Cause::OtherThreads, "blas");
}

#[test]
fn reports_the_cause_of_uneven_step_times() {
    let mut summary = healthy();
    (summary.mean, summary.longer) = (3_400_000, Some(("wait", 1_100_000)));
    let expected = "median 2.20 ms, mean 3.40 ms. What differs most is wait, 1.10 ms more";
    names(&summary, Cause::UnevenSteps, expected);
    assert!(report(&summary, &[]).contains("a step takes 2.20 ms, in the mean 3.40 ms"));
    summary.mean = 3_300_000;
    is_silent(&summary);
    assert!(!report(&summary, &[]).contains("in the mean"));
}
