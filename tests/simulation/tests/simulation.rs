//! What ranks exchange in a step, and how it grows with their number. Times are virtual, so that
//! all of it is the same on every machine.

use simulation::counts::{Count, Kind};
use simulation::network::Network;
use simulation::training::{Setting, Simulated};

const NETWORK: Network = Network {
    latency_us: 10.0,
    gbits: 100.0,
    message_us: 1.0,
    spread: 0.2,
    seed: 1,
};

/// A small training. Its variables have a tile of 1024 elements for each of 64 ranks.
fn training(ranks: usize) -> Setting {
    Setting {
        network: NETWORK,
        ranks,
        variables: 16,
        bytes: 64 * 4096,
        compute_us: 100.0,
        steps: 2,
        uneven: false,
        failing: None,
    }
}

fn simulate(setting: &Setting) -> Simulated {
    setting.simulate().unwrap()
}

/// What the ranks have sent most in a step, in collectives of one kind.
fn in_a_step(setting: &Setting, simulated: &Simulated, kind: Kind) -> Count {
    let most = simulated.most.of(kind);
    assert!(most.calls.is_multiple_of(setting.steps));
    Count {
        calls: most.calls / setting.steps,
        messages: most.messages / setting.steps,
        bytes: most.bytes / setting.steps,
    }
}

#[test]
fn ranks_that_agree_exchange_votes_and_gradients_alone() {
    for ranks in [2, 16, 64] {
        let setting = training(ranks);
        let simulated = simulate(&setting);
        let count = |kind| in_a_step(&setting, &simulated, kind);
        let log = u64::from(ranks.ilog2());
        // A run, its commit, an update, its gradients, its weights, and its commit.
        let votes = count(Kind::Vote);
        assert_eq!((votes.calls, votes.messages), (6, 6 * log));
        for kind in [Kind::Descriptors, Kind::Records, Kind::Broadcast] {
            assert_eq!(count(kind), Count::default(), "{kind:?}");
        }
        // Each rank sends to each other rank once, and the votes before. It sends all gradients but
        // its own part, and its own part of the weights to all; and with these 8 bytes.
        let others = ranks as u64 - 1;
        let payload = setting.bytes as u64 * others / ranks as u64;
        for (kind, further) in [(Kind::AllToAll, 0), (Kind::AllGather, 8 * others)] {
            let exchange = count(kind);
            assert_eq!((exchange.calls, exchange.messages), (1, others + log));
            assert_eq!(exchange.bytes, payload + further + 32 * log, "{kind:?}");
        }
    }
}

#[test]
fn ranks_with_different_numbers_of_examples_exchange_one_descriptor_and_one_record() {
    let setting = Setting {
        uneven: true,
        ..training(64)
    };
    let simulated = simulate(&setting);
    let count = |kind| in_a_step(&setting, &simulated, kind);
    assert_eq!(count(Kind::Vote).calls, 6);
    for kind in [Kind::Descriptors, Kind::Records] {
        assert_eq!(count(kind).calls, 1, "{kind:?}");
    }
    // The bits are not those of equal weights.
    let even = simulate(&training(64));
    assert_ne!(simulated.fingerprint, even.fingerprint);
}

#[test]
fn times_depend_on_the_seed_alone_and_bits_do_not() {
    let setting = training(64);
    let first = simulate(&setting);
    let again = simulate(&setting);
    assert_eq!(
        (first.step, first.total, first.fingerprint),
        (again.step, again.total, again.fingerprint)
    );
    let otherwise = simulate(&Setting {
        network: Network { seed: 2, ..NETWORK },
        ..setting
    });
    assert_ne!(first.step, otherwise.step);
    assert_eq!(
        (first.total, first.fingerprint),
        (otherwise.total, otherwise.fingerprint)
    );
}

/// A number of ranks that divides nothing, and more bytes than a round exchanges.
#[test]
fn ranks_of_any_number_exchange_gradients_of_any_size() {
    let five = training(5);
    let simulated = simulate(&five);
    let exchange = in_a_step(&five, &simulated, Kind::AllToAll);
    assert_eq!(exchange.calls, 1);
    // The tiles of 1024 elements do not come out even: the least that a rank keeps is 12 of 64.
    let most = five.bytes as u64 / 64 * (64 - 12);
    assert!(
        (most..most + 1000).contains(&exchange.bytes),
        "{exchange:?}"
    );
    let large = Setting {
        bytes: 40 << 20,
        steps: 1,
        ..training(5)
    };
    let simulated = simulate(&large);
    let exchange = in_a_step(&large, &simulated, Kind::AllToAll);
    assert!(exchange.calls > 1, "{exchange:?}");
    assert!(exchange.bytes > large.bytes as u64 * 3 / 4, "{exchange:?}");
}

#[test]
fn a_rank_that_fails_ends_the_training_of_all() {
    for ranks in [1, 5, 16] {
        let setting = Setting {
            failing: Some(ranks / 2),
            ..training(ranks)
        };
        let failed = setting.simulate().map(|found| found.step).unwrap_err();
        // Ranks that know of it give up, which others may hear first.
        assert!(
            failed.to_string().contains("the rank that is to fail"),
            "{ranks}: {failed}"
        );
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let right = training(2);
    let with = |network| Setting { network, ..right };
    for (wrong, part) in [
        (
            with(Network {
                gbits: 0.0,
                ..NETWORK
            }),
            "gbits: 0; give a number above 0",
        ),
        (
            with(Network {
                gbits: f64::NAN,
                ..NETWORK
            }),
            "gbits: NaN",
        ),
        (
            with(Network {
                latency_us: -1.0,
                ..NETWORK
            }),
            "latency",
        ),
        (
            with(Network {
                spread: 1.0,
                ..NETWORK
            }),
            "spread: 1;",
        ),
        (Setting { ranks: 0, ..right }, "ranks"),
        (Setting { steps: 0, ..right }, "steps"),
        (Setting { bytes: 63, ..right }, "give 64 or more"),
        (
            Setting {
                compute_us: f64::INFINITY,
                ..right
            },
            "compute",
        ),
    ] {
        let refused = wrong.simulate().map(|found| found.step).unwrap_err();
        assert!(
            refused.to_string().contains(part),
            "'{part}' is not in: {refused}"
        );
    }
}

/// What a step takes by hand, where nothing is drawn.
#[test]
fn times_are_those_of_the_network() {
    let network = Network {
        spread: 0.0,
        gbits: 80.0,
        ..NETWORK
    };
    let setting = Setting {
        network,
        ..training(2)
    };
    // A message, the bytes of a vote and of a part at 100 picoseconds each.
    let message = 11_000_000;
    let vote = message + 32 * 100;
    let part = setting.bytes as u64 / 2 * 100;
    let exchanges = 2 * (vote + message + part) + 8 * 100;
    assert_eq!(simulate(&setting).step, 100_000_000 + 6 * vote + exchanges);
    let alone = Setting {
        network,
        ..training(1)
    };
    assert_eq!(simulate(&alone).step, 100_000_000);
}

#[test]
fn memory_of_a_rank_hardly_grows_with_the_number_of_ranks() {
    let more_than_needed = |ranks: usize| {
        let setting = Setting {
            variables: 1000,
            // Less than what is mapped from the system, past the allocator.
            bytes: 1000 * 512,
            steps: 1,
            ..training(ranks)
        };
        simulate(&setting).memory - setting.memory_needed()
    };
    let few = more_than_needed(8);
    let many = more_than_needed(64);
    assert!(many < 16 << 20, "{many} bytes");
    // Even a word for each rank and variable would be 448,000 bytes.
    assert!(many < few + 200_000, "{few} and {many} bytes");
}
