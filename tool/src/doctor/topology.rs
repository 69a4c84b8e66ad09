//! The distances between processors and memory: caches and memory nodes.

use umbo_core::executor::affinity::CpuSet;
use umbo_core::system::processors::Cache;

use super::{Finding, Verdict};
use crate::bytes_text;

/// The finding about the caches of one processor of this process, from the nearest on.
pub(super) fn caches(all: &[Cache]) -> Finding {
    let subject = "caches";
    if all.is_empty() {
        return Finding::new(Verdict::Fine, subject, "the system does not say");
    }
    let in_words = |cache: &Cache| {
        let size = bytes_text(cache.bytes as u64);
        match cache.processors.count() {
            0 => format!("{size} of level {}", cache.level),
            1 => format!("{size} of level {}, its own", cache.level),
            _ => format!("{size} of level {} for {}", cache.level, cache.processors),
        }
    };
    let text: Vec<String> = all.iter().map(in_words).collect();
    let text = format!("a processor has {}", text.join("; "));
    Finding::new(Verdict::Fine, subject, text)
}

/// The finding about the memory nodes of the machine, for a process that may use `processors`.
pub(super) fn memory_nodes(all: &[CpuSet], processors: &CpuSet) -> Finding {
    let subject = "memory nodes";
    let is_used = |node: &&CpuSet| processors.processors().any(|each| node.contains(each));
    let used: Vec<String> = all.iter().filter(is_used).map(CpuSet::to_string).collect();
    match (all.len(), used.len()) {
        (0, _) => Finding::new(Verdict::Fine, subject, "the system does not say"),
        (1, _) => Finding::new(Verdict::Fine, subject, "1, near to all processors"),
        (machine, 0 | 1) => Finding::new(
            Verdict::Fine,
            subject,
            format!("1 of {machine} for this process: {}", used.join("")),
        ),
        (_, count) => Finding::new(
            Verdict::Note,
            subject,
            format!(
                "{count}, with processors {}: memory of another node is slower. A multiple of \
                 {count} as the number of replicas keeps each on one node; so does one process for \
                 each node (numactl --cpunodebind)",
                used.join(" and ")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;

    fn set(processors: &[usize]) -> CpuSet {
        processors.iter().copied().collect()
    }

    #[test]
    fn caches_are_described_from_the_nearest_on() {
        let cache = |level, bytes, processors: &[usize]| Cache {
            level,
            bytes,
            processors: set(processors),
        };
        check(&caches(&[]), Verdict::Fine, "does not say");
        let all = [cache(1, 32 << 10, &[0]), cache(3, 8 << 20, &[0, 1])];
        let text = "a processor has 32.0 KiB of level 1, its own; 8.0 MiB of level 3 for 0-1";
        check(&caches(&all), Verdict::Fine, text);
        let alone = caches(&[cache(2, 4 << 20, &[])]);
        check(&alone, Verdict::Fine, "a processor has 4.0 MiB of level 2");
    }

    #[test]
    fn several_nodes_are_worth_knowing() {
        let nodes = [set(&[0, 1, 4, 5]), set(&[2, 3, 6, 7])];
        let all = (0..8).collect();
        check(&memory_nodes(&[], &all), Verdict::Fine, "does not say");
        check(&memory_nodes(&nodes[..1], &all), Verdict::Fine, "1, near");
        let one = memory_nodes(&nodes, &set(&[2, 6]));
        check(&one, Verdict::Fine, "1 of 2 for this process: 2-3,6-7");
        let both = memory_nodes(&nodes, &all);
        check(
            &both,
            Verdict::Note,
            "2, with processors 0-1,4-5 and 2-3,6-7",
        );
        check(&both, Verdict::Note, "A multiple of 2");
    }
}
