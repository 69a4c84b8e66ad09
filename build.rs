//! What the linker has to know, and what the library says about its build.
//! Writes nothing, unless the feature `headers` asks for the C headers.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    #[cfg(feature = "headers")]
    {
        println!("cargo::rerun-if-changed=src");
        println!("cargo::rerun-if-changed=crates/umbo-headers/templates");
        println!("cargo::rerun-if-changed=include/umbo");
        if let Err(problem) = umbo_headers::write(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            println!("cargo::error={problem}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=UMBO_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=UMBO_PROFILE={}", variable("PROFILE"));
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        bring_unwinder(&variable("TARGET"));
    }
    // Cargo sets no soname, without which programs would record the path of the build folder.
    // Before 1.0 every minor version may change the ABI, so it is part of the name.
    let minor = variable("CARGO_PKG_VERSION_MINOR");
    let major = variable("CARGO_PKG_VERSION_MAJOR");
    let version = if major == "0" {
        format!("0.{minor}")
    } else {
        major
    };
    let link = |argument: &str| println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    match &*variable("CARGO_CFG_TARGET_OS") {
        "linux" => {
            link(&format!("-soname,libumbo.so.{version}"));
            // Threads and thread-locals of the library outlive dlclose.
            link("-z,nodelete");
        }
        // A library with thread-locals is never unloaded there.
        "macos" => link(&format!("-install_name,@rpath/libumbo.{version}.dylib")),
        _ => {}
    }
}

/// Makes the unwinder that Rust has for musl a part of libumbo.a. Compilers that link with musl
/// would take GCC's, which is for glibc.
fn bring_unwinder(target: &str) {
    let compiler = env::var("RUSTC").unwrap_or_default();
    let asked = Command::new(compiler)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    let libraries = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let folder = Path::new(&libraries.unwrap_or_default()).join("self-contained");
    // Distributions with musl as their C library have another unwinder.
    if folder.join("libunwind.a").exists() {
        println!("cargo::rustc-link-search=native={}", folder.display());
        println!("cargo::rustc-link-lib=static:+bundle=unwind");
    }
}
