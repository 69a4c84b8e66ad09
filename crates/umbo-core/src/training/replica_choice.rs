//! The number of replicas with which steps are fastest, by the times of the first ones: the one
//! rule of trainers and of loops that make their strategies themselves.
//!
//! The first steps have the largest number of replicas. While fewer are faster, the next smaller
//! divisor of that number is tried. Then the fastest of all that were tried stays.

use umbo_diagnose::summary::{counted, duration};

/// The number of steps that are timed with each number of replicas. Their median counts, so that
/// those in which threads and memory are new do not.
pub const STEPS: usize = 48;

/// Fewer replicas are tried further if steps take at most this part of the least time before.
const FASTER: f64 = 0.97;

/// A number of replicas that steps were taken with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// How many replicas compute at a time.
    pub replicas: u64,
    /// The median time of a step.
    pub seconds: f64,
}

/// The consequence of the steps that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More steps are needed with this number of replicas.
    Try(u64),
    /// This number of replicas stays.
    Keep(u64),
}

/// The consequence of these, which were tried one after the other.
pub fn next(tried: &[Tried]) -> Next {
    let Some((last, before)) = tried.split_last() else {
        return Next::Keep(1);
    };
    let best_before = fastest(before);
    if best_before.is_none_or(|best| last.seconds <= best.seconds * FASTER)
        && let Some(fewer) = smaller(tried[0].replicas, last.replicas)
    {
        return Next::Try(fewer);
    }
    Next::Keep(fastest(tried).unwrap_or(last).replicas)
}

/// The one with the least time, and of several the one with the most replicas, which was tried
/// first.
fn fastest(tried: &[Tried]) -> Option<&Tried> {
    tried
        .iter()
        .min_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

/// The largest divisor that is smaller.
fn smaller(all: u64, present: u64) -> Option<u64> {
    (1..present)
        .rev()
        .find(|number| all.is_multiple_of(*number))
}

/// The numbers of replicas that these steps had, of which the first ones had `all`, and the
/// consequence.
pub fn by_times(all: u64, seconds: &[f64]) -> (Vec<Tried>, Next) {
    let mut tried = Vec::new();
    let mut step = match all {
        0 | 1 => Next::Keep(all.max(1)),
        all => Next::Try(all),
    };
    for times in seconds.chunks_exact(STEPS) {
        let Next::Try(replicas) = step else { break };
        let mut times: [f64; STEPS] = std::array::from_fn(|index| times[index]);
        times.sort_unstable_by(f64::total_cmp);
        tried.push(Tried {
            replicas,
            seconds: times[STEPS / 2],
        });
        step = next(&tried);
    }
    (tried, step)
}

/// A number of replicas, in words.
pub fn unit(replicas: u64) -> String {
    counted(replicas, "replica")
}

/// The times of the steps, in words.
pub fn times(tried: &[Tried]) -> String {
    let times = tried.iter().map(|one| {
        let time = duration((one.seconds * 1e9) as u64);
        format!("{time} with {}", unit(one.replicas))
    });
    let times: Vec<String> = times.collect();
    format!("a step takes {}", times.join(", "))
}

/// The numbers that were tried and the consequence, in words.
pub fn text(tried: &[Tried], next: Next) -> String {
    let (number, is_next) = match next {
        Next::Try(number) => (unit(number), true),
        Next::Keep(number) => (unit(number), false),
    };
    match (tried, is_next) {
        ([], _) => format!("{number}: nothing was measured"),
        (tried, true) => format!("{number} next: {}", times(tried)),
        (tried, false) => format!("{number}: {}", times(tried)),
    }
}

#[cfg(test)]
mod tests {
    use super::{Next, STEPS, by_times, text};

    /// The numbers that are tried, and the one that stays, if steps take these times.
    fn chosen(all: u64, mut time: impl FnMut(u64) -> f64) -> (Vec<u64>, u64) {
        let mut seconds = Vec::new();
        loop {
            let (tried, next) = by_times(all, &seconds);
            match next {
                Next::Try(replicas) => seconds.push(time(replicas)),
                Next::Keep(replicas) => {
                    assert_eq!(seconds.len(), tried.len() * STEPS);
                    return (tried.iter().map(|one| one.replicas).collect(), replicas);
                }
            }
        }
    }

    #[test]
    fn a_step_that_replicas_share_stays_with_all() {
        assert_eq!(
            chosen(2, |replicas| 100.0 / replicas as f64),
            (vec![2, 1], 2)
        );
        assert_eq!(
            chosen(12, |replicas| 120.0 / replicas as f64),
            (vec![12, 6], 12)
        );
    }

    #[test]
    fn a_step_that_costs_only_coordination_ends_with_one() {
        let tried = vec![12, 6, 4, 3, 2, 1];
        assert_eq!(
            chosen(12, |replicas| 10.0 + 10.0 * replicas as f64),
            (tried, 1)
        );
        assert_eq!(chosen(7, |replicas| replicas as f64), (vec![7, 1], 1));
        assert_eq!(chosen(1, |_| 1.0), (vec![], 1));
    }

    #[test]
    fn the_best_number_in_between_stays() {
        let time = |replicas: u64| 240.0 / replicas as f64 + 10.0 * replicas as f64;
        assert_eq!(chosen(16, time), (vec![16, 8, 4, 2], 4));
    }

    #[test]
    fn equal_times_stay_with_more_replicas() {
        assert_eq!(chosen(8, |_| 100.0), (vec![8, 4], 8));
        // A little faster: it stays, but nothing more is tried.
        let little = |replicas: u64| 98.0 + replicas as f64 / 4.0;
        assert_eq!(chosen(8, little), (vec![8, 4], 4));
    }

    #[test]
    fn slow_steps_that_are_few_decide_nothing() {
        let mut step = 0;
        let time = |replicas: u64| {
            step += 1;
            match step % 48 < 8 || step % 5 == 0 {
                true => 1e3,
                false => replicas as f64,
            }
        };
        assert_eq!(chosen(4, time), (vec![4, 2, 1], 1));
    }

    /// Of no sequence of times a number stays with which steps were slower than with another.
    #[test]
    fn the_fastest_of_all_that_were_tried_stays() {
        let mut state = 7_u64;
        let mut drawn = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f64 / (1_u64 << 24) as f64
        };
        for _ in 0..2000 {
            let all = 1 + (drawn() * 24.0) as u64;
            let noise = drawn() * 0.2;
            let levels: Vec<f64> = (0..=all).map(|_| 0.5 + drawn()).collect();
            let mut seconds = Vec::new();
            let (tried, kept) = loop {
                let (tried, next) = by_times(all, &seconds);
                match next {
                    Next::Try(replicas) => {
                        seconds.push(levels[replicas as usize] + noise * drawn());
                    }
                    Next::Keep(kept) => break (tried, kept),
                }
            };
            let time = |number| tried.iter().find(|one| one.replicas == number);
            let fastest = tried
                .iter()
                .map(|one| one.seconds)
                .fold(f64::INFINITY, f64::min);
            assert!(time(kept).is_none_or(|one| one.seconds == fastest));
            assert!(tried.iter().all(|one| all.is_multiple_of(one.replicas)));
            // The times after the choice change nothing.
            seconds.extend([0.0; 3 * STEPS]);
            assert_eq!(by_times(all, &seconds), (tried, Next::Keep(kept)));
        }
    }

    #[test]
    fn the_text_says_what_was_tried() {
        let said = |seconds: &[f64]| {
            let (tried, next) = by_times(2, seconds);
            text(&tried, next)
        };
        let mut seconds = vec![2e-3; STEPS];
        assert_eq!(said(&[]), "2 replicas: nothing was measured");
        assert_eq!(
            said(&seconds),
            "1 replica next: a step takes 2.00 ms with 2 replicas"
        );
        seconds.extend([1e-3; STEPS]);
        assert_eq!(
            said(&seconds),
            "1 replica: a step takes 2.00 ms with 2 replicas, 1.00 ms with 1 replica"
        );
    }
}
