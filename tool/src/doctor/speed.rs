//! What decides the speed of callbacks and is not Umbo's: computing libraries, frequencies,
//! hyperthreads.

use std::collections::BTreeSet;

use umbo_core::executor::affinity::CpuSet;
use umbo_core::observe::libraries::{Library, Vectors};
use umbo_core::system::processors::{self as system, Frequency};

use super::{Finding, Verdict};

/// The findings about the computing libraries that are loaded, on a processor that has `has`.
pub(super) fn computing_libraries(loaded: &[Library], has: Option<Vectors>) -> Vec<Finding> {
    let subject = "computing libraries";
    if loaded.is_empty() {
        let text = "none is loaded in this process; with LD_PRELOAD=libopenblas.so.0, or another \
                    one, umbo doctor says which kernels it has chosen";
        return vec![Finding::new(Verdict::Fine, subject, text)];
    }
    let finding = |library: &Library| match has.and_then(|has| library.old_kernels(has)) {
        Some(text) => Finding::new(Verdict::Note, subject, text),
        None => Finding::new(Verdict::Fine, subject, library.in_words()),
    };
    loaded.iter().map(finding).collect()
}

/// How the frequency of each of these processors is chosen, as far as the system says.
pub(super) fn frequencies_of(processors: &CpuSet) -> Vec<Frequency> {
    processors
        .processors()
        .filter_map(system::frequency)
        .collect()
}

/// With some drivers the hardware chooses the frequency, also where the governor is called
/// powersave.
fn is_kept_low(frequency: &Frequency) -> bool {
    let chooses = ["intel_pstate", "amd-pstate"]
        .iter()
        .any(|driver| frequency.driver.starts_with(driver));
    frequency.preference == "power" || (frequency.governor == "powersave" && !chooses)
}

/// The finding about the processors' frequencies.
pub(super) fn frequencies(all: &[Frequency]) -> Finding {
    let subject = "frequency";
    let Some(first) = all.first() else {
        return Finding::new(
            Verdict::Fine,
            subject,
            "the system does not say how it is chosen",
        );
    };
    let low = all
        .iter()
        .filter(|frequency| is_kept_low(frequency))
        .count();
    if low > 0 {
        let text = format!(
            "{low} of {} processors are set to save power, so steps are slower. As root: cpupower \
             frequency-set -g performance",
            all.len()
        );
        return Finding::new(Verdict::Note, subject, text);
    }
    Finding::new(
        Verdict::Fine,
        subject,
        format!("governor {}", first.governor),
    )
}

/// The processors that share a core with each of these, as far as the system says.
pub(super) fn siblings(processors: &CpuSet) -> Vec<CpuSet> {
    processors
        .processors()
        .filter_map(system::siblings)
        .collect()
}

/// The finding about processors that share a core, from the result of [`siblings`].
pub(super) fn hyperthreads(siblings: &[CpuSet]) -> Finding {
    let subject = "cores";
    let cores = siblings
        .iter()
        .map(CpuSet::to_string)
        .collect::<BTreeSet<_>>()
        .len();
    match (cores, siblings.len()) {
        (0, _) => Finding::new(Verdict::Fine, subject, "the system does not say"),
        (cores, processors) if processors > cores => {
            let text = format!(
                "the {processors} processors are hyperthreads of {cores} cores: two replicas on \
                 one core share its arithmetic; compare {cores} replicas with {processors}"
            );
            Finding::new(Verdict::Note, subject, text)
        }
        (cores, _) => Finding::new(
            Verdict::Fine,
            subject,
            format!("{cores}, one for each processor"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use umbo_core::observe::libraries::Maker;

    #[test]
    fn old_kernels_are_worth_knowing() {
        let of = |kernels: &str| {
            let library = Library {
                maker: Maker::OpenBlas,
                file: "libopenblas.so.0".into(),
                kernels: Some(kernels.into()),
                chooses: true,
                threads: Some(1),
            };
            computing_libraries(&[library], Some(Vectors::Avx2)).remove(0)
        };
        check(&of("Prescott"), Verdict::Note, "OPENBLAS_CORETYPE=Haswell");
        check(&of("Haswell"), Verdict::Fine, "Haswell kernels, 1 thread");
        check(
            &computing_libraries(&[], None)[0],
            Verdict::Fine,
            "none is loaded",
        );
    }

    #[test]
    fn processors_that_save_power_are_worth_knowing() {
        let of = |governor: &str, driver: &str, preference: &str| {
            let frequency = Frequency {
                governor: governor.into(),
                driver: driver.into(),
                preference: preference.into(),
            };
            frequencies(&[frequency])
        };
        check(
            &of("powersave", "acpi-cpufreq", ""),
            Verdict::Note,
            "1 of 1 processors",
        );
        check(
            &of("powersave", "intel_pstate", "power"),
            Verdict::Note,
            "cpupower",
        );
        check(
            &of("powersave", "intel_pstate", "balance_performance"),
            Verdict::Fine,
            "powersave",
        );
        check(
            &of("powersave", "amd-pstate-epp", ""),
            Verdict::Fine,
            "powersave",
        );
        check(
            &of("performance", "acpi-cpufreq", ""),
            Verdict::Fine,
            "governor performance",
        );
        check(&frequencies(&[]), Verdict::Fine, "does not say");
    }

    #[test]
    fn hyperthreads_are_not_cores() {
        let of = |lists: &[&[usize]]| {
            let sets = lists.iter().map(|list| list.iter().copied().collect());
            hyperthreads(&sets.collect::<Vec<_>>())
        };
        check(
            &of(&[&[0, 2], &[1, 3], &[0, 2], &[1, 3]]),
            Verdict::Note,
            "4 processors are hyperthreads of 2",
        );
        check(&of(&[&[0], &[1]]), Verdict::Fine, "2, one for each");
        check(&of(&[]), Verdict::Fine, "does not say");
        // A process that may use one hyperthread of each core has cores.
        check(&of(&[&[0, 2], &[1, 3]]), Verdict::Fine, "2, one for each");
    }
}
