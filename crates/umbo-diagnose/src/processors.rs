//! Causes that make processors slower than their number promises: frequencies that are kept low,
//! and cores that two of them share.

use std::collections::BTreeSet;

use crate::summary::counted;
use umbo_system::processors::{self, CpuSet, Frequency};

/// How the frequency of each of these processors is chosen, as far as the system says.
pub fn frequencies_of(processors: &CpuSet) -> Vec<Frequency> {
    processors
        .processors()
        .filter_map(processors::frequency)
        .collect()
}

/// The processors that share a core with each of these, as far as the system says.
pub fn siblings_of(processors: &CpuSet) -> Vec<CpuSet> {
    processors
        .processors()
        .filter_map(processors::siblings)
        .collect()
}

/// A text if some of the processors are set to save power.
pub fn saving_power(all: &[Frequency]) -> Option<String> {
    let low = all.iter().filter(|frequency| is_kept_low(frequency));
    let low = low.count();
    (low > 0).then(|| {
        format!(
            "{low} of {} processors are set to save power, so steps are slower. As root: cpupower \
             frequency-set -g performance",
            all.len()
        )
    })
}

/// With some drivers the hardware chooses the frequency, also where the governor is called
/// powersave.
fn is_kept_low(frequency: &Frequency) -> bool {
    let chooses = ["intel_pstate", "amd-pstate"]
        .iter()
        .any(|driver| frequency.driver.starts_with(driver));
    frequency.preference == "power" || (frequency.governor == "powersave" && !chooses)
}

/// How many cores the processors are, from the result of [`siblings_of`].
pub fn cores(siblings: &[CpuSet]) -> usize {
    let distinct: BTreeSet<String> = siblings.iter().map(CpuSet::to_string).collect();
    distinct.len()
}

/// A text if the processors are hyperthreads of fewer cores.
pub fn hyperthreads(siblings: &[CpuSet]) -> Option<String> {
    let cores = cores(siblings);
    let processors = siblings.len();
    (processors > cores).then(|| {
        format!(
            "the {processors} processors are hyperthreads of {}: two replicas on one core share \
             its arithmetic; compare {} with {processors}",
            counted(cores as u64, "core"),
            counted(cores as u64, "replica")
        )
    })
}

/// The notes of a report about the processors of this process, with so many CPU devices in use.
pub(crate) fn notes(cpu_devices: u32) -> Vec<String> {
    let Ok(processors) = CpuSet::of_main_thread() else {
        return Vec::new();
    };
    of_processors(
        cpu_devices,
        &siblings_of(&processors),
        &frequencies_of(&processors),
    )
}

fn of_processors(cpu_devices: u32, siblings: &[CpuSet], frequencies: &[Frequency]) -> Vec<String> {
    // Replicas that have a core each do not share one.
    let is_shared = cpu_devices as usize > cores(siblings);
    let hyperthreads = is_shared.then(|| hyperthreads(siblings)).flatten();
    let notes = [hyperthreads, saving_power(frequencies)];
    notes.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_that_share_a_core_and_low_frequencies_are_noted() {
        let set = |list: &[usize]| list.iter().copied().collect::<CpuSet>();
        let shared = [set(&[0, 1]), set(&[0, 1])];
        let apart = [set(&[0]), set(&[1])];
        let low = Frequency {
            governor: "powersave".into(),
            driver: "acpi-cpufreq".into(),
            preference: String::new(),
        };
        assert!(of_processors(2, &apart, &[]).is_empty());
        assert!(of_processors(1, &shared, &[]).is_empty());
        let notes = of_processors(2, &shared, &[low]);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("the 2 processors are hyperthreads of 1 core:"));
        assert!(notes[1].contains("1 of 1 processors are set to save power"));
    }
}
