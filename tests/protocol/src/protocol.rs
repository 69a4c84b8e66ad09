//! A model of steps: their replicas, ranks, limits, merge calls and nested runs, the vote, commit
//! and rollback, and the elements that the epoch around them takes and puts back.
//!
//! All of its states are explored. In each one, every element is applied, passed over, held, or
//! still to come, and only one of these; ranks begin a step with the same state and element; a
//! commit has the writes of all replicas and no others; each way ends, with everything done. Then a
//! fault is put into each transition, and has to be found.

mod explore;
mod faults;
mod model;
mod state;
mod traces;

use std::env;
use std::time::Instant;

use explore::{Report, explore};
use faults::Fault;
use model::{Event, Model};

/// The models that `make test` explores.
fn small() -> Vec<Model> {
    let plain = Model {
        ranks: 1,
        replicas: 2,
        elements: 2,
        failures: 2,
        limits: 2,
        ..Model::default()
    };
    let merging = Model {
        merges: true,
        ..plain
    };
    let nesting = Model {
        nests: true,
        ..merging
    };
    let ranks = |model: Model| Model {
        ranks: 2,
        replicas: 1,
        ..model
    };
    vec![
        plain,
        merging,
        nesting,
        ranks(plain),
        ranks(merging),
        Model {
            failures: 1,
            ..ranks(nesting)
        },
        Model {
            quits: true,
            ..ranks(merging)
        },
    ]
}

/// The models that take gigabytes of memory and minutes.
fn large() -> Vec<Model> {
    let of_size = |ranks, replicas, elements, failures, limits| Model {
        ranks,
        replicas,
        elements,
        failures,
        limits,
        merges: true,
        nests: true,
        ..Model::default()
    };
    vec![
        of_size(1, 3, 3, 3, 3),
        of_size(2, 2, 3, 2, 1),
        of_size(2, 2, 2, 2, 2),
        of_size(3, 1, 2, 2, 2),
        Model {
            nests: false,
            ..of_size(3, 1, 2, 2, 2)
        },
        Model {
            quits: true,
            ..of_size(3, 1, 2, 2, 2)
        },
    ]
}

fn explored(model: &Model, most: usize) -> Report {
    let begun = Instant::now();
    let report = explore(model, most);
    let Model {
        ranks,
        replicas,
        elements,
        failures,
        limits,
        ..
    } = model;
    let calls = match (model.merges, model.nests) {
        (false, _) => "no merge calls",
        (_, false) => "merge calls",
        _ => "merge calls with nested runs",
    };
    println!(
        "{ranks} ranks, {replicas} replicas each, {elements} elements, {failures} failures, \
         {limits} limits, {calls}{}: {} states, {} transitions, depth {}, {} ends, {:.1} s",
        if model.quits { ", until an error" } else { "" },
        report.states,
        report.transitions,
        report.depth,
        report.ends,
        begun.elapsed().as_secs_f64()
    );
    report
}

fn holds(models: &[Model], most: usize) {
    let mut events = [0; Event::COUNT];
    for model in models {
        let report = explored(model, most);
        if let Some((property, way)) = &report.violation {
            panic!("{property}: {model:?}\n{way}");
        }
        assert!(report.ends > 0);
        for (all, count) in events.iter_mut().zip(report.events) {
            *all += count;
        }
    }
    let missing: Vec<_> = Event::ALL
        .iter()
        .filter(|&&it| events[it as usize] == 0)
        .collect();
    assert!(missing.is_empty(), "events that never occur: {missing:?}");
}

#[test]
fn every_property_holds_in_all_states() {
    holds(&small(), 1 << 21);
}

#[test]
fn a_fault_in_each_transition_is_found() {
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        let found = small().into_iter().find_map(|model| {
            let model = Model {
                fault: Some(fault),
                ..model
            };
            explore(&model, 1 << 21).violation
        });
        match found {
            Some((property, _)) => println!("{fault:?}: {property}"),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "faults that are not found: {missed:?}");
}

/// Explores the large models where `MODELS` is `all`; they take gigabytes of memory.
#[test]
fn every_property_holds_in_large_models() {
    if env::var_os("MODELS").is_none_or(|models| models != "all") {
        return;
    }
    holds(&large(), 1 << 27);
}
