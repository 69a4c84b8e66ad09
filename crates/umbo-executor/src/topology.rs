//! The order in which the machine's processors are dealt out.
//!
//! Systems number processors as they like: on many machines the second threads of all cores come
//! after the first ones, and sometimes every other processor is of the other memory node. Whoever
//! gets a contiguous part of this module's order gets neighbours: those of a core follow each
//! other, then those of a last cache, then those of a memory node.

use std::sync::OnceLock;

use umbo_system::processors::{self, CpuSet};

/// The processors of a set, in the machine's order.
pub(crate) fn in_order(set: &CpuSet) -> impl Iterator<Item = usize> + '_ {
    static ORDER: OnceLock<Vec<usize>> = OnceLock::new();
    let order = ORDER.get_or_init(|| {
        let online = processors::online_set().unwrap_or_default();
        order(&online, &Neighbours::of_machine(&online))
    });
    chosen(order, set)
}

/// The processors of a set in the given order, and after them those that it does not have.
fn chosen<'a>(order: &'a [usize], set: &'a CpuSet) -> impl Iterator<Item = usize> + 'a {
    let known: CpuSet = order.iter().copied().collect();
    let first = order.iter().copied();
    let rest = set
        .processors()
        .filter(move |&processor| !known.contains(processor));
    first
        .filter(|&processor| set.contains(processor))
        .chain(rest)
}

/// The sets of processors that share something, from the most to the least costly to be apart.
struct Neighbours {
    nodes: Vec<CpuSet>,
    caches: Vec<CpuSet>,
    cores: Vec<CpuSet>,
}

impl Neighbours {
    /// The sets that the system reports.
    fn of_machine(online: &CpuSet) -> Neighbours {
        let last_cache = |processor| Some(processors::caches(processor).pop()?.processors);
        Neighbours {
            nodes: processors::memory_nodes(),
            caches: sets(online, last_cache),
            cores: sets(online, processors::siblings),
        }
    }
}

/// The different sets that the processors belong to. Each set is read once.
fn sets(online: &CpuSet, set_of: impl Fn(usize) -> Option<CpuSet>) -> Vec<CpuSet> {
    let mut found: Vec<CpuSet> = Vec::new();
    for processor in online.processors() {
        if !found.iter().any(|set| set.contains(processor)) {
            found.extend(set_of(processor));
        }
    }
    found
}

/// The processors, those of a node together, within it those of a cache, within it those of a core.
/// Sets are in the order of their first processors; processors without a set are sets of their own.
fn order(processors: &CpuSet, neighbours: &Neighbours) -> Vec<usize> {
    let first = |sets: &[CpuSet], processor| {
        let set = sets.iter().find(|set| set.contains(processor));
        set.and_then(|set| set.processors().next())
            .unwrap_or(processor)
    };
    let mut all: Vec<usize> = processors.processors().collect();
    let sets = [&neighbours.nodes, &neighbours.caches, &neighbours.cores];
    all.sort_by_key(|&processor| sets.map(|sets| first(sets, processor)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::part_of;

    /// A machine with so many of each, whose second threads are numbered after all first ones.
    fn machine(nodes: usize, caches: usize, cores: usize, threads: usize) -> (CpuSet, Neighbours) {
        let all = nodes * caches * cores;
        let set = |part: usize, count: usize| {
            let size = all / count;
            let firsts = part * size..(part + 1) * size;
            firsts
                .flat_map(|core| (0..threads).map(move |thread| thread * all + core))
                .collect::<CpuSet>()
        };
        let sets = |count| (0..count).map(|part| set(part, count)).collect();
        let neighbours = Neighbours {
            nodes: sets(nodes),
            caches: sets(nodes * caches),
            cores: sets(all),
        };
        ((0..all * threads).collect(), neighbours)
    }

    #[test]
    fn neighbours_follow_each_other() {
        for (nodes, caches, cores, threads) in [
            (1, 1, 1, 1),
            (1, 1, 4, 2),
            (2, 1, 4, 2),
            (2, 3, 4, 1),
            (8, 2, 6, 2),
            (2, 2, 3, 4),
        ] {
            let (all, neighbours) = machine(nodes, caches, cores, threads);
            let order = order(&all, &neighbours);
            assert_eq!(order.iter().copied().collect::<CpuSet>(), all);
            assert_eq!(order.len(), all.count());
            for sets in [&neighbours.nodes, &neighbours.caches, &neighbours.cores] {
                for part in order.chunks(all.count() / sets.len()) {
                    let part: CpuSet = part.iter().copied().collect();
                    assert!(sets.contains(&part), "{part} of {order:?}");
                }
            }
        }
    }

    #[test]
    fn threads_of_a_core_are_dealt_out_together() {
        let (all, neighbours) = machine(2, 1, 2, 2);
        assert_eq!(order(&all, &neighbours), [0, 4, 1, 5, 2, 6, 3, 7]);
    }

    /// Replicas of a machine with two nodes of four cores with two threads each.
    #[test]
    fn replicas_have_whole_nodes_and_cores() {
        let (all, neighbours) = machine(2, 1, 4, 2);
        let order = order(&all, &neighbours);
        let share = |index, count| part_of(order.iter().copied(), all.count(), index, count);
        for (count, sets) in [(2, &neighbours.nodes), (8, &neighbours.cores)] {
            let shares: Vec<CpuSet> = (0..count).map(|index| share(index, count)).collect();
            assert_eq!(&shares, sets);
        }
        // A node each for two of four replicas.
        assert_eq!(share(0, 4).to_string(), "0-1,8-9");
    }

    #[test]
    fn a_machine_that_reports_nothing_keeps_its_numbers() {
        let nothing = Neighbours {
            nodes: Vec::new(),
            caches: Vec::new(),
            cores: Vec::new(),
        };
        let all: CpuSet = [5, 2, 90].into_iter().collect();
        assert_eq!(order(&all, &nothing), [2, 5, 90]);
    }

    #[test]
    fn a_set_has_its_processors_once_in_the_machines_order() {
        let set: CpuSet = [0, 2, 4, 7, 9].into_iter().collect();
        let order = [0, 4, 1, 5, 2, 6, 3, 7];
        assert_eq!(chosen(&order, &set).collect::<Vec<_>>(), [0, 4, 2, 7, 9]);
        assert_eq!(in_order(&set).collect::<CpuSet>(), set);
    }
}
