//! Has the sources of the library that this package compiles anew use loom's atomics, locks and
//! threads. A flag for the compiler would do so, too, and would have everything else compiled anew
//! as well.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=loom");
}
