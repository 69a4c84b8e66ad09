//! The search for MPI with libraries whose ABI is the standard one or their own, played by
//! small libraries that are named to it or that the program has already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A library that says this of its ABI.
fn library(name: &str, abi: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("mpi");
    fs::create_dir_all(&folder).unwrap();
    let [file, library] = ["c", "so"].map(|ending| folder.join(format!("{name}.{ending}")));
    fs::write(
        &file,
        format!("int MPI_Init(void *count, void *words) {{ return 0; }}\n{abi}"),
    )
    .unwrap();
    // Rust links with cc, so it is there.
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &file]);
    assert!(compiler.status().unwrap().success());
    library
}

/// The doctor's text about MPI where this variable names the library.
fn doctor(variable: &str, library: &Path) -> String {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_umbo"));
    // Doctor says what is wrong where a library is named.
    let tool = tool
        .args(["doctor", "--json"])
        .env("UMBO_MPI_LIBRARY", "/no/library");
    let output = tool.env(variable, library).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = said["findings"].as_array().unwrap();
    let mpi = findings
        .iter()
        .find(|finding| finding["subject"] == "MPI")
        .unwrap();
    assert_eq!(mpi["verdict"], "note", "{mpi}");
    mpi["text"].as_str().unwrap().to_owned()
}

#[test]
fn an_abi_of_a_library_s_own_is_refused() {
    let abi_of_its_own = "int MPI_Abi_get_version(int *a, int *b) { *a = *b = -1; return 0; }";
    let standard = "int MPI_Abi_get_version(int *a, int *b) { *a = 1; *b = 0; return 0; }";
    for (name, abi, reason) in [
        ("own", abi_of_its_own, "which is an ABI of its own"),
        ("none", "", "no MPI_Abi_get_version"),
        // The stub has little else.
        ("standard", standard, "has no function MPI_Initialized"),
    ] {
        let library = library(name, abi);
        let named = doctor("UMBO_MPI_LIBRARY", &library);
        assert!(named.contains(reason), "{name}: {named}");
        let linked = doctor("LD_PRELOAD", &library);
        let expected = if name == "standard" {
            "/no/library"
        } else {
            "the program has an MPI"
        };
        assert!(linked.contains(expected), "{name}: {linked}");
        assert!(
            name == "standard" || linked.contains(reason),
            "{name}: {linked}"
        );
    }
}
