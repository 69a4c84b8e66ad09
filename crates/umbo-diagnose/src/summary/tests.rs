//! Tests of the summary.

use super::*;

fn sample(begun: u64, wall: u64, on_processor: u64, ready: u64) -> ReplicaSample {
    let clocks = Some(crate::report::Clocks {
        on_processor,
        ready,
    });
    ReplicaSample {
        begun,
        wall,
        spent: [0; 8],
        clocks,
    }
}

#[test]
fn each_replica_s_phases_add_up_to_the_step() {
    let mut step = StepSample {
        period: 1000,
        run: 700,
        ..StepSample::default()
    };
    step.before[Phase::Input as usize] = 100;
    step.before[Phase::Update as usize] = 150;
    step.central[Phase::Update as usize] = 50;
    let mut first = sample(10, 500, 500, 0);
    // The thread waited in a merge call, and then executed its function.
    first.spent[Phase::Wait as usize] = 40;
    first.spent[Phase::Reduce as usize] = 60;
    let mut second = sample(20, 450, 450, 0);
    second.spent[Phase::Wait as usize] = 110;
    second.spent[Phase::Copy as usize] = 30;
    let setup = Setup {
        replicas: 2,
        devices: 2,
        cpu_devices: 2,
        processors: 2,
    };
    let summary = Summary::of(setup, &[step], &[first, second]);
    assert_eq!(summary.outside, 50);
    for replica in &summary.replicas {
        assert_eq!(replica.spent.iter().sum::<u64>(), 1000 - 50, "{replica:?}");
        assert_eq!(replica.spent[Phase::Reduce as usize], 60);
        assert_eq!(replica.spent[Phase::Update as usize], 200);
    }
    assert_eq!(summary.replicas[0].spent[Phase::Compute as usize], 400);
    assert_eq!(summary.replicas[1].spent[Phase::Compute as usize], 310);
    assert_eq!(summary.busiest(), 400);
    // The result is 700 less 50, 60 and 400.
    assert_eq!(summary.coordination, 190);
    assert_eq!(summary.overlap, None);
}

#[test]
fn medians_ignore_the_step_that_was_interrupted() {
    let step = |run| StepSample {
        period: run,
        run,
        ..StepSample::default()
    };
    let setup = Setup {
        replicas: 1,
        devices: 1,
        cpu_devices: 1,
        processors: 1,
    };
    let steps = [step(100), step(1_000_000), step(120)];
    let replicas = [
        sample(0, 90, 90, 0),
        sample(0, 999_000, 90, 0),
        sample(0, 100, 90, 0),
    ];
    let summary = Summary::of(setup, &steps, &replicas);
    assert_eq!((summary.run, summary.period), (120, 120));
    assert_eq!(summary.replicas[0].busy, 100);
}

#[test]
fn overlap_tells_taking_turns_from_working_side_by_side() {
    let side_by_side = overlap(&[sample(0, 100, 100, 0), sample(0, 100, 60, 40)]).unwrap();
    assert!(side_by_side.at_work > 1.9 && side_by_side.blocked < 0.1);
    let in_turn = overlap(&[sample(0, 100, 100, 0), sample(0, 200, 100, 0)]).unwrap();
    assert!((in_turn.at_work - 1.0).abs() < 1e-9 && in_turn.blocked > 0.3);
    assert!((in_turn.least - 1.0).abs() < 1e-9);
    assert_eq!(overlap(&[sample(0, 100, 100, 0)]), None);
    let unknown = ReplicaSample {
        clocks: None,
        ..sample(0, 1, 1, 1)
    };
    assert_eq!(overlap(&[unknown, unknown]), None);
}

#[test]
fn durations_read_well() {
    let all = [0, 7, 999, 1000, 12_345, 999_499, 999_500, 1_500_000_000]
        .map(duration)
        .join(", ");
    assert_eq!(
        all,
        "0, 7 ns, 999 ns, 1.00 \u{b5}s, 12.3 \u{b5}s, 999 \u{b5}s, 1.00 ms, 1.50 s"
    );
}
