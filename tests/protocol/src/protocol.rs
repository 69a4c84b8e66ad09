//! A model of whole steps: their replicas, ranks, limits, merge calls and nested runs, votes,
//! commits and rollbacks, and the elements that the epoch around them takes and puts back.
//!
//! All states of a model are explored (`explore`), and properties are checked in each of them
//! (`model/properties.rs`). Then faults are put into the model one at a time (`faults`), and each
//! has to break a property. `traces` checks steps that the library itself has taken.

#[macro_use]
mod listed;

mod explore;
mod faults;
mod model;
mod state;
mod traces;

use std::env;
use std::time::Instant;

use explore::{Report, Violation, explore};
use faults::Fault;
use model::{Event, Model};
use state::State;

/// A model, and the least number of states that it has: with fewer, transitions have been lost.
type Sized = (Model, usize);

/// The models that `make test` explores.
fn small() -> [Sized; 7] {
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
    let on_two_ranks = |model: Model| Model {
        ranks: 2,
        replicas: 1,
        ..model
    };
    let nesting_on_two_ranks = Model {
        failures: 1,
        ..on_two_ranks(nesting)
    };
    let quitting = Model {
        quits: true,
        ..on_two_ranks(merging)
    };
    [
        (plain, 13_589),
        (merging, 21_307),
        (nesting, 49_156),
        (on_two_ranks(plain), 125_545),
        (on_two_ranks(merging), 255_851),
        (nesting_on_two_ranks, 462_213),
        (quitting, 62_426),
    ]
}

/// The models that take gigabytes of memory and minutes.
fn large() -> [Sized; 6] {
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
    let three_ranks = of_size(3, 1, 2, 2, 2);
    let merging = Model {
        nests: false,
        ..three_ranks
    };
    let quitting = Model {
        quits: true,
        ..three_ranks
    };
    [
        (of_size(1, 3, 3, 3, 3), 1_576_983),
        (of_size(2, 2, 3, 2, 1), 5_591_042),
        (of_size(2, 2, 2, 2, 2), 30_663_655),
        (three_ranks, 49_424_583),
        (merging, 9_181_989),
        (quitting, 19_991_204),
    ]
}

/// Explores a model and prints its size.
fn explored(model: &Model, most: usize) -> Report {
    let begun = Instant::now();
    let report = explore(model, most);
    println!(
        "{model:?}: {} states, {} transitions, depth {}, {} ends, {:.1} s",
        report.states,
        report.transitions,
        report.depth,
        report.ends,
        begun.elapsed().as_secs_f64()
    );
    report
}

/// Asserts that no property is broken in the models, and that each kind of transition occurs.
fn every_property_holds(models: &[Sized], most: usize) {
    let mut occurred = [false; Event::ALL.len()];
    for (model, least) in models {
        let report = explored(model, most);
        if let Some(Violation { property, path }) = &report.violation {
            panic!("{property}: {model:?}\n{path}");
        }
        assert!(report.ends > 0, "no run ends: {model:?}");
        assert!(report.states >= *least, "fewer than {least}: {model:?}");
        for (occurred, count) in occurred.iter_mut().zip(report.events) {
            *occurred |= count > 0;
        }
    }
    let missing: Vec<_> = Event::ALL
        .iter()
        .filter(|&&event| !occurred[event as usize])
        .collect();
    assert!(
        missing.is_empty(),
        "transitions that never occur: {missing:?}"
    );
}

#[test]
fn every_property_holds_in_all_states() {
    every_property_holds(&small(), 1 << 21);
}

/// Explores the large models if `MODELS` is `all`.
#[test]
fn every_property_holds_in_large_models() {
    if env::var_os("MODELS").is_some_and(|models| models == "all") {
        every_property_holds(&large(), 1 << 27);
    }
}

#[test]
fn every_fault_breaks_a_property() {
    let mut missed = Vec::new();
    for &fault in Fault::ALL {
        let found = small().into_iter().find_map(|(model, _)| {
            let model = Model {
                fault: Some(fault),
                ..model
            };
            explore(&model, 1 << 21).violation
        });
        match found {
            Some(violation) => println!("{fault:?}: {}", violation.property),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "faults that break nothing: {missed:?}");
}

/// Walks through each model, always by another one of the transitions, and packs every state.
#[test]
fn packed_states_are_unpacked_alike() {
    for (model, _) in small() {
        let mut state = model.start();
        let mut moves = Vec::new();
        for choice in 0..10_000 {
            assert_eq!(State::unpack(&state.pack()), state);
            moves.clear();
            model.moves(&state, &mut moves);
            state = match moves.len() {
                0 => model.start(),
                count => moves[choice * 7919 % count].to,
            };
        }
    }
}
