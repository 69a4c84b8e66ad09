//! The vector instructions that processors have, and that kernels of computing libraries use.

/// The vector instructions of a processor, or of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// SSE, or none.
    Sse,
    /// AVX.
    Avx,
    /// AVX2.
    Avx2,
    /// AVX-512, with the parts that OpenBLAS's SkylakeX kernels use.
    Avx512,
    /// AArch64's vectors of 128 bits.
    Neon,
    /// AArch64's vectors of the processor's length.
    Sve,
}

impl Vectors {
    /// The instructions of this processor. `None` on an architecture of which nothing is known.
    pub fn of_processor() -> Option<Vectors> {
        #[cfg(target_arch = "x86_64")]
        {
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl");
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            Some(
                match (avx512 && avx2, avx2, is_x86_feature_detected!("avx")) {
                    (true, ..) => Vectors::Avx512,
                    (_, true, _) => Vectors::Avx2,
                    (_, _, true) => Vectors::Avx,
                    _ => Vectors::Sse,
                },
            )
        }
        #[cfg(target_arch = "aarch64")]
        {
            let sve = std::arch::is_aarch64_feature_detected!("sve");
            Some(if sve { Vectors::Sve } else { Vectors::Neon })
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        None
    }

    /// The instructions of kernels with this name, if they are known to be made without the newest
    /// ones.
    pub(crate) fn of_kernels(name: &str) -> Option<Vectors> {
        const SSE: [&str; 19] = [
            "generic",
            "unknown",
            "katmai",
            "coppermine",
            "northwood",
            "prescott",
            "banias",
            "core2",
            "penryn",
            "dunnington",
            "nehalem",
            "athlon",
            "opteron",
            "opteron_sse3",
            "barcelona",
            "bobcat",
            "nano",
            "atom",
            "core",
        ];
        const AVX: [&str; 4] = ["sandybridge", "bulldozer", "piledriver", "steamroller"];
        // Not those of AMD's processors, which lose nothing by AVX2.
        const AVX2: [&str; 1] = ["haswell"];
        const NEON: [&str; 14] = [
            "armv8",
            "cortexa53",
            "cortexa55",
            "cortexa57",
            "cortexa72",
            "cortexa73",
            "cortexa76",
            "neoversen1",
            "thunderx",
            "thunderx2t99",
            "thunderx3t110",
            "tsv110",
            "emag8180",
            "falkor",
        ];
        let lists: [(&[&str], Vectors); 4] = [
            (&SSE, Vectors::Sse),
            (&AVX, Vectors::Avx),
            (&AVX2, Vectors::Avx2),
            (&NEON, Vectors::Neon),
        ];
        let is_one_of = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other));
        let found = lists.iter().find(|(names, _)| is_one_of(names));
        found.map(|&(_, vectors)| vectors)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Vectors::Sse => "SSE",
            Vectors::Avx => "AVX",
            Vectors::Avx2 => "AVX2",
            Vectors::Avx512 => "AVX-512",
            Vectors::Neon => "NEON",
            Vectors::Sve => "SVE",
        }
    }
}
