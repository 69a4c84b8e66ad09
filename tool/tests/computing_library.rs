//! `umbo doctor` with a computing library that is loaded beside it: one that says which kernels it
//! has.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Says that it is an OpenBLAS. Wheels of Python give its functions other names.
const LIBRARY: &str = r#"
#define NAME_(before, name, after) before##name##after
#define NAME(before, name, after) NAME_(before, name, after)
char *NAME(BEFORE, openblas_get_corename, AFTER)(void) { return KERNELS; }
char *NAME(BEFORE, openblas_get_config, AFTER)(void) {
  return "OpenBLAS 0.3.21 NO_AFFINITY DYNAMIC_ARCH";
}
int NAME(BEFORE, openblas_get_num_threads, AFTER)(void) { return 3; }
"#;

/// The doctor's text where the library with these names and kernels is loaded.
fn doctor(folder: &Path, before: &str, after: &str, kernels: &str) -> String {
    let source = folder.join("blas.c");
    let library = folder.join(format!("lib{before}blas{after}.so"));
    fs::write(&source, LIBRARY).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args([format!("-DBEFORE={before}"), format!("-DAFTER={after}")])
        .arg(format!("-DKERNELS=\"{kernels}\""))
        .status();
    assert!(compiled.unwrap().success());
    let mut tool = Command::new(env!("CARGO_BIN_EXE_umbo"));
    let output = tool
        .args(["doctor", "--json"])
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_doctor_names_old_kernels_and_what_mends_them() {
    let folder = env::temp_dir().join(format!("umbo-computing-library-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for (before, after) in [("", ""), ("scipy_", "64_")] {
        let said = doctor(&folder, before, after, "Prescott");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            assert!(
                said.contains("its Prescott kernels") && said.contains("OPENBLAS_CORETYPE="),
                "{said}"
            );
        }
        let file = format!("lib{before}blas{after}.so");
        assert!(said.contains(&format!("OpenBLAS ({file})")), "{said}");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512vl") {
            let said = doctor(&folder, before, after, "Haswell");
            assert!(
                said.contains("its Haswell kernels") && !said.contains("Set OPENBLAS_CORETYPE="),
                "{said}"
            );
        }
        let said = doctor(&folder, before, after, "Zen");
        assert!(
            said.contains(&format!("OpenBLAS ({file}), Zen kernels, 3 threads")),
            "{said}"
        );
        assert!(!said.contains("OPENBLAS_CORETYPE="), "{said}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
