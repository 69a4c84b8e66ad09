//! The causes of slow callbacks that are not Umbo's: computing libraries, frequencies,
//! hyperthreads.

use umbo_core::diagnose::libraries::{Library, Vectors};
use umbo_core::diagnose::processors;
use umbo_core::executor::affinity::CpuSet;
use umbo_core::system::processors::Frequency;

use super::{Finding, Verdict};

/// The findings about the computing libraries that are loaded, on a processor that has `has`.
pub(super) fn computing_libraries(loaded: &[Library], has: Option<Vectors>) -> Vec<Finding> {
    let subject = "computing libraries";
    if loaded.is_empty() {
        let text = "none is loaded in this process; with LD_PRELOAD=libopenblas.so.0, or another \
                    one, umbo doctor says which kernels it has chosen";
        return vec![Finding::new(Verdict::Fine, subject, text)];
    }
    let kernels = |library: &Library, has| {
        let old = library.old_kernels(has);
        old.or_else(|| library.lesser_kernels(has))
    };
    let finding = |library: &Library| match has.and_then(|has| kernels(library, has)) {
        Some(text) => Finding::new(Verdict::Note, subject, text),
        None => Finding::new(Verdict::Fine, subject, library.in_words()),
    };
    loaded.iter().map(finding).collect()
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
    match processors::saving_power(all) {
        Some(text) => Finding::new(Verdict::Note, subject, text),
        None => Finding::new(
            Verdict::Fine,
            subject,
            format!("governor {}", first.governor),
        ),
    }
}

/// The finding about processors that share a core, from the sets of those that share one.
pub(super) fn hyperthreads(siblings: &[CpuSet]) -> Finding {
    let subject = "cores";
    if siblings.is_empty() {
        return Finding::new(Verdict::Fine, subject, "the system does not say");
    }
    match processors::hyperthreads(siblings) {
        Some(text) => Finding::new(Verdict::Note, subject, text),
        None => Finding::new(
            Verdict::Fine,
            subject,
            format!("{}, one for each processor", siblings.len()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use umbo_core::diagnose::libraries::Maker;

    #[test]
    fn old_kernels_are_worth_knowing() {
        let kernels_of = |kernels: &str| {
            let library = Library {
                maker: Maker::OpenBlas,
                file: "libopenblas.so.0".into(),
                kernels: Some(kernels.into()),
                chooses: true,
                threads: Some(1),
            };
            move |has| computing_libraries(&[library], Some(has)).remove(0)
        };
        check(
            &kernels_of("Prescott")(Vectors::Avx2),
            Verdict::Note,
            "Set OPENBLAS_CORETYPE=Haswell",
        );
        check(
            &kernels_of("Haswell")(Vectors::Avx512),
            Verdict::Note,
            "Compare with OPENBLAS_CORETYPE=SkylakeX",
        );
        check(
            &kernels_of("Haswell")(Vectors::Avx2),
            Verdict::Fine,
            "Haswell kernels, 1 thread",
        );
        check(
            &computing_libraries(&[], None)[0],
            Verdict::Fine,
            "none is loaded",
        );
    }

    #[test]
    fn processors_that_save_power_are_worth_knowing() {
        let power = |governor: &str, driver: &str, preference: &str| {
            let frequency = Frequency {
                governor: governor.into(),
                driver: driver.into(),
                preference: preference.into(),
            };
            frequencies(&[frequency])
        };
        check(
            &power("powersave", "acpi-cpufreq", ""),
            Verdict::Note,
            "1 of 1 processors",
        );
        check(
            &power("powersave", "intel_pstate", "power"),
            Verdict::Note,
            "cpupower",
        );
        check(
            &power("powersave", "intel_pstate", "balance_performance"),
            Verdict::Fine,
            "powersave",
        );
        check(
            &power("powersave", "amd-pstate-epp", ""),
            Verdict::Fine,
            "powersave",
        );
        check(
            &power("performance", "acpi-cpufreq", ""),
            Verdict::Fine,
            "governor performance",
        );
        check(&frequencies(&[]), Verdict::Fine, "does not say");
    }

    #[test]
    fn hyperthreads_are_not_cores() {
        let machine = |lists: &[&[usize]]| {
            let sets = lists.iter().map(|list| list.iter().copied().collect());
            hyperthreads(&sets.collect::<Vec<_>>())
        };
        check(
            &machine(&[&[0, 2], &[1, 3], &[0, 2], &[1, 3]]),
            Verdict::Note,
            "4 processors are hyperthreads of 2",
        );
        check(&machine(&[&[0], &[1]]), Verdict::Fine, "2, one for each");
        check(&machine(&[]), Verdict::Fine, "does not say");
        // A process that may use one hyperthread of each core has cores.
        check(
            &machine(&[&[0, 2], &[1, 3]]),
            Verdict::Fine,
            "2, one for each",
        );
    }
}
