//! The search for CUDA devices with drivers in every state, played by small libraries
//! that are loaded in place of the driver's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use umbo_core::device::cuda::failure::FUNCTIONS;

const STARTS: &str = "int cuInit(unsigned flags) { return 0; }";

/// A card that answers, and a second one that has no memory left for a context.
const TWO_CARDS: &str = r#"
#include <stddef.h>
#include <string.h>
static void *current;
static int retained;
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strcpy(name, "Fake card"); return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device == 1) return 2;
    retained++;
    *context = &retained;
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    /* Released once. */
    return --retained == 0 ? 0 : 201;
}
int cuMemGetInfo_v2(size_t *available, size_t *total) {
    if (current != &retained) return 201;
    *available = 1000;
    *total = 3000;
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 0; return 0; }
"#;

/// `umbo devices --json` with a driver made of this C source.
fn devices_with_driver(name: &str, source: &str) -> Value {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("driver.c");
    let library = folder.join("libcuda.so");
    fs::write(&file, source).unwrap();
    // Rust links with cc, so it is there.
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &file]);
    assert!(compiler.status().unwrap().success());
    let mut tool = Command::new(env!("CARGO_BIN_EXE_umbo"));
    let output = tool
        .args(["devices", "--json"])
        .env("LD_LIBRARY_PATH", &folder)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_driver_that_cannot_serve_is_explained() {
    let count = |body: &str| format!("{STARTS} int cuDeviceGetCount(int *count) {{ {body} }}");
    for (name, source, reason) in [
        (
            "no_card",
            "int cuInit(unsigned flags) { return 100; }".to_owned(),
            "CUDA error 100",
        ),
        (
            "stub",
            "int cuInit(unsigned flags) { return 34; }".to_owned(),
            "stub",
        ),
        ("zero", count("*count = 0; return 0;"), "no device"),
        ("count_fails", count("return 999;"), "CUDA error 999"),
        (
            "not_a_driver",
            "int nothing;".to_owned(),
            "lacks a function",
        ),
        ("half_a_driver", STARTS.to_owned(), "lacks a function"),
    ] {
        let devices = devices_with_driver(name, &source);
        let told = devices["no_gpu_because"].as_str().unwrap();
        assert!(told.contains(reason), "{name}: {told}");
        assert_eq!(devices["physical"].as_array().unwrap().len(), 1, "{name}");
        assert_eq!(devices["logical"].as_array().unwrap().len(), 1, "{name}");
    }
}

#[test]
fn cards_are_listed_with_their_memory() {
    // The other functions without which no card is opened; nobody calls them here.
    let others: String = FUNCTIONS
        .into_iter()
        .filter(|name| !TWO_CARDS.contains(&format!("int {name}(")))
        .map(|name| format!("int {name}(void) {{ return 999; }}\n"))
        .collect();
    let devices = devices_with_driver("two_cards", &format!("{TWO_CARDS}{others}"));
    assert_eq!(devices["no_gpu_because"], Value::Null);
    let physical = &devices["physical"];
    assert_eq!(physical[1]["name"], "GPU:0");
    assert_eq!(physical[1]["model"], "Fake card");
    assert_eq!(physical[1]["total_bytes"], 3000);
    assert_eq!(physical[1]["available_bytes"], 1000);
    // The failure of one card does not hide it, nor the other.
    assert_eq!(physical[2]["name"], "GPU:1");
    assert_eq!(physical[2]["total_bytes"], Value::Null);
    let last = &devices["logical"][2];
    assert_eq!(
        last["canonical_name"],
        "/job:localhost/replica:0/task:0/device:GPU:1"
    );
}
