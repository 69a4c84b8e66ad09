//! Few cases in which each two choices meet.

use std::collections::BTreeSet;

/// Choices, one of each count, in which every two of different counts come together.
pub fn pairwise(counts: &[usize]) -> Vec<Vec<usize>> {
    let mut open = BTreeSet::new();
    for (one, &of_one) in counts.iter().enumerate() {
        for (other, &of_other) in counts.iter().enumerate().skip(one + 1) {
            let pairs = (0..of_one).flat_map(|a| (0..of_other).map(move |b| (a, b)));
            open.extend(pairs.map(|(a, b)| ((one, a), (other, b))));
        }
    }
    let mut rows = Vec::new();
    while let Some(&((one, a), (other, b))) = open.first() {
        let mut row: Vec<Option<usize>> = vec![None; counts.len()];
        (row[one], row[other]) = (Some(a), Some(b));
        for at in 0..counts.len() {
            let met = |choice: usize| {
                let pairs = row
                    .iter()
                    .enumerate()
                    .filter_map(|(rank, &other)| Some((rank, other?)));
                let pairs = pairs.map(|pair| (pair.min((at, choice)), pair.max((at, choice))));
                pairs.filter(|pair| open.contains(pair)).count()
            };
            let best = (0..counts[at])
                .max_by_key(|&choice| (met(choice), (choice + rows.len()) % counts[at]));
            row[at] = row[at].or(best);
        }
        let row: Vec<usize> = row.into_iter().flatten().collect();
        for (one, &a) in row.iter().enumerate() {
            for (other, &b) in row.iter().enumerate().skip(one + 1) {
                open.remove(&((one, a), (other, b)));
            }
        }
        rows.push(row);
    }
    rows
}
