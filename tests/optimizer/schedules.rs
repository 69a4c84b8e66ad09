//! Learning rate schedules with a name, against the rates of `torch.optim.lr_scheduler`, which
//! `schedules.py` wrote to `schedules.json`.

use serde_json::Value;
use umbo_core::error::Status;
use umbo_core::optimizer::{NamedSchedule, Plateau, PlateauState, ScheduleKind};

use crate::setup::*;

const RATE: f64 = 0.5;

fn schedule_of(case: &Value) -> NamedSchedule {
    let number = |name: &str| case[name].as_f64().unwrap_or(0.0);
    let whole = |name: &str| case[name].as_u64().unwrap_or(0);
    let kind = match case["schedule"].as_str().unwrap() {
        "linear" => ScheduleKind::Linear,
        "cosine" => ScheduleKind::Cosine,
        "step" => ScheduleKind::Step {
            factor: number("factor"),
            interval: whole("interval"),
        },
        "one_cycle" => ScheduleKind::OneCycle {
            initial: number("initial_factor"),
        },
        "plateau" => ScheduleKind::Plateau(Plateau {
            factor: number("factor"),
            patience: whole("patience"),
            threshold: number("threshold"),
            cooldown: whole("cooldown"),
            maximize: whole("larger_is_better") == 1,
        }),
        other => panic!("no schedule {other}"),
    };
    NamedSchedule {
        kind,
        learning_rate: RATE,
        warmup: whole("warmup"),
        updates: whole("updates"),
        final_factor: number("final_factor"),
    }
}

#[test]
fn rates_are_those_of_pytorch() {
    let table: Value = serde_json::from_str(include_str!("schedules.json")).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 21);
    for case in cases {
        let schedule = schedule_of(case);
        schedule.check().unwrap();
        let mut plateau = PlateauState::default();
        for (before, expected) in case["rates"].as_array().unwrap().iter().enumerate() {
            let expected = expected.as_f64().unwrap();
            let rate = schedule.rate(before as u64, &plateau);
            assert!(
                (rate - expected).abs() <= 1e-14,
                "update {before}: {rate} for {expected}; {schedule:?}"
            );
            if let Some(value) = case["observed"][before].as_f64() {
                assert!(schedule.observe(&mut plateau, value));
            }
        }
    }
}

#[test]
fn schedules_stay_at_their_end() {
    for kind in [
        ScheduleKind::Linear,
        ScheduleKind::Cosine,
        ScheduleKind::OneCycle { initial: 0.04 },
    ] {
        let schedule = NamedSchedule {
            kind,
            learning_rate: RATE,
            warmup: 3,
            updates: 9,
            final_factor: 0.25,
        };
        for before in [9, 10, u64::MAX] {
            let rate = schedule.rate(before, &PlateauState::default());
            assert!((rate - RATE / 4.0).abs() < 1e-15, "{kind:?}: {rate}");
        }
    }
}

#[test]
fn an_update_has_the_rate_of_its_number() {
    let variable = variable("w", &[0.0f64]);
    let gradients = gradients(1, &[&variable], umbo_core::optimizer::LossReduction::Sum);
    let optimizer = optimizer("sgd", 1.0);
    let schedule = NamedSchedule {
        kind: ScheduleKind::Linear,
        learning_rate: 1.0,
        warmup: 2,
        updates: 6,
        final_factor: 0.0,
    };
    optimizer.set_named_schedule(schedule).unwrap();
    for (number, rate) in (1..).zip([0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0]) {
        step(&gradients, number, &[Some(&[1.0f64])], &[1.0]);
        assert_eq!(apply(&optimizer, &gradients).unwrap().learning_rate, rate);
    }
    assert_eq!(value::<f64>(&variable), [-4.0]);
    assert_eq!(
        optimizer.named_schedule(),
        Some((schedule, PlateauState::default()))
    );
    refusal(optimizer.observe(1.0), Status::FailedPrecondition);
    optimizer.set_learning_rate(0.5).unwrap();
    assert!(!optimizer.has_schedule());
}

/// A value that is not a number is not better, whatever comes before or after it.
#[test]
fn a_value_that_is_not_a_number_is_not_better() {
    let optimizer = optimizer("sgd", 1.0);
    let schedule = NamedSchedule {
        kind: ScheduleKind::Plateau(Plateau {
            factor: 0.5,
            patience: 1,
            threshold: 0.0,
            cooldown: 0,
            maximize: false,
        }),
        learning_rate: 1.0,
        warmup: 0,
        updates: 0,
        final_factor: 0.25,
    };
    optimizer.set_named_schedule(schedule).unwrap();
    let factors = [f64::NAN, 2.0, f64::NAN, f64::NAN, 1.0, 1.0, 1.0].map(|value| {
        optimizer.observe(value).unwrap();
        optimizer.named_schedule().unwrap().1.factor
    });
    assert_eq!(factors, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]);
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let good = NamedSchedule {
        kind: ScheduleKind::Cosine,
        learning_rate: 1.0,
        warmup: 2,
        updates: 10,
        final_factor: 0.0,
    };
    let plateau = |factor, threshold| {
        ScheduleKind::Plateau(Plateau {
            factor,
            patience: 0,
            threshold,
            cooldown: 0,
            maximize: false,
        })
    };
    let without_end = |kind| NamedSchedule {
        kind,
        updates: 0,
        ..good
    };
    let cases = [
        ("updates", NamedSchedule { updates: 2, ..good }),
        (
            "updates",
            NamedSchedule {
                kind: ScheduleKind::Constant,
                ..good
            },
        ),
        (
            "learning_rate",
            NamedSchedule {
                learning_rate: f64::NAN,
                ..good
            },
        ),
        (
            "final_factor",
            NamedSchedule {
                final_factor: 1.5,
                ..good
            },
        ),
        (
            "warmup_updates",
            NamedSchedule {
                kind: ScheduleKind::OneCycle { initial: 0.1 },
                warmup: 1,
                ..good
            },
        ),
        (
            "initial_factor",
            NamedSchedule {
                kind: ScheduleKind::OneCycle { initial: -0.1 },
                ..good
            },
        ),
        (
            "interval",
            without_end(ScheduleKind::Step {
                factor: 0.5,
                interval: 0,
            }),
        ),
        (
            "factor",
            without_end(ScheduleKind::Step {
                factor: 0.0,
                interval: 1,
            }),
        ),
        ("factor", without_end(plateau(1.0, 0.0))),
        ("threshold", without_end(plateau(0.5, -1.0))),
    ];
    let optimizer = optimizer("sgd", 1.0);
    for (argument, schedule) in cases {
        let error = optimizer.set_named_schedule(schedule);
        let message = refusal(error, Status::InvalidArgument);
        assert!(message.starts_with(argument), "{argument}: {message}");
        assert!(!optimizer.has_schedule());
    }
}
