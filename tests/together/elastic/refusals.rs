//! Elastic ranks refuse state that does not fit, and what would die with one of them.

use std::sync::Arc;

use umbo_core::checkpoint::SavedIterator;
use umbo_core::error::Status;
use umbo_core::input::{DistributeOptions, Sharding, distribute_dataset};
use umbo_core::optimizer::{Gradients, GradientsOptions, LossReduction, apply};
use umbo_core::strategy::Options;

use super::Undisturbed;
use super::scene::{Plan, Training, data, options_of, plans};
use super::trouble::Trouble;
use crate::engine::ranks;
use crate::on_ranks_of;

fn plan() -> Plan {
    plans().remove(0)
}

/// The state of an elastic rank, of which there are several.
fn state_of_one(size: usize) -> Vec<u8> {
    let states = on_ranks_of(
        &ranks(size),
        |rank| options_of(rank, 1),
        |_, strategy| {
            let training = Training::new(strategy.unwrap(), plan()).unwrap();
            training.train(2, &Arc::new(Trouble::none())).unwrap();
            training.bytes().unwrap()
        },
    );
    assert!(states.iter().all(|state| *state == states[0]));
    states.into_iter().next().unwrap()
}

#[test]
fn the_state_of_ranks_is_refused_where_it_does_not_fit() {
    let state = state_of_one(3);
    let undisturbed = Undisturbed::new(plan());
    undisturbed.check(2, &state);
    let restore = |given: &(dyn Fn(usize) -> Vec<u8> + Sync)| {
        on_ranks_of(
            &ranks(3),
            |rank| options_of(rank, 1),
            |rank, strategy| {
                let training = Training::new(strategy.unwrap(), plan()).unwrap();
                let fresh = training.bytes().unwrap();
                let restored = training.checkpoint.restore_from_ranks(&given(rank));
                let now = training.bytes().unwrap();
                assert!(restored.is_ok() || now == fresh, "something has changed");
                (restored, now)
            },
        )
    };
    // Nobody has anything.
    for (restored, _) in restore(&|_| Vec::new()) {
        assert_eq!(restored.unwrap_err().status(), Status::NotFound);
    }
    // One of them has, whichever; and it may be further than another.
    let fresh = undisturbed.after(0);
    for has in 0..3 {
        for others in [&fresh, &Vec::new()] {
            let given = |rank| {
                if rank == has {
                    state.clone()
                } else {
                    others.clone()
                }
            };
            for (restored, now) in restore(&given) {
                restored.unwrap();
                assert!(now == state);
            }
        }
    }
    // It is damaged on one rank: nobody takes anything.
    let mut damaged = state.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for given in [damaged, state[..state.len() - 1].to_vec()] {
        let of_rank = |rank| if rank == 0 { given.clone() } else { Vec::new() };
        for (restored, _) in restore(&of_rank) {
            assert_eq!(restored.unwrap_err().unnamed().status(), Status::DataLoss);
        }
    }
}

#[test]
fn elastic_ranks_refuse_what_would_die_with_one_of_them() {
    on_ranks_of(
        &ranks(2),
        |rank| options_of(rank, 1),
        |_, strategy| {
            let strategy = strategy.unwrap();
            let training = Training::new(strategy.clone(), plan()).unwrap();
            let (optimizer, gradients) = training.trainer();
            let refused = apply(optimizer, gradients).unwrap_err();
            assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
            assert!(refused.to_string().contains("elastic"), "{refused}");
            let accumulating = GradientsOptions {
                row_sparse: &[],
                accumulation_steps: 2,
                dtype: None,
            };
            let variables = gradients.variables().to_vec();
            let devices = strategy.replica_devices();
            let reduction = LossReduction::Mean;
            let made = Gradients::new(strategy.id(), devices, variables, reduction, accumulating);
            assert_eq!(made.unwrap_err().status(), Status::Unimplemented);
            let own_data = DistributeOptions {
                sharding: Sharding::Off,
                ..DistributeOptions::default()
            };
            let own_data = distribute_dataset(&strategy, &data(), &own_data).unwrap();
            let pass = SavedIterator(Arc::new(own_data.iterator().unwrap()));
            training.checkpoint.add("own", Arc::new(pass)).unwrap();
            let refused = training.bytes().unwrap_err();
            assert_eq!(refused.status(), Status::Unimplemented, "{refused}");
            assert!(refused.to_string().contains("'own'"), "{refused}");
        },
    );
    // One rank is elastic, the other is not.
    let some = |rank| Options {
        elastic: rank == 0,
        ..options_of(rank, 1)
    };
    on_ranks_of(&ranks(2), some, |_, strategy| {
        let refused = strategy.err().unwrap();
        assert_eq!(refused.status(), Status::FailedPrecondition, "{refused}");
        assert!(refused.to_string().contains("elastic"), "{refused}");
    });
}
