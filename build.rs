//! What the linker has to know, what the library says about its build, and the kernels of GPUs, packed.
//! Writes nothing else, unless the feature `headers` asks for the C headers.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

#[cfg(feature = "headers")]
#[path = "src/ffi/headers/generate.rs"]
mod generate;

fn main() {
    #[cfg(feature = "headers")]
    {
        println!("cargo::rerun-if-changed=src/ffi");
        println!("cargo::rerun-if-changed=include/umbo");
        if let Err(problem) = generate::write(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))) {
            println!("cargo::error={problem}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["umbo.ptx", "words.ptx"] {
        pack(Path::new("src/kernels/cuda"), name).expect("the kernels can be packed");
    }
    let variable = |name: &str| env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=UMBO_TARGET={}", variable("TARGET"));
    println!("cargo::rustc-env=UMBO_PROFILE={}", variable("PROFILE"));
    if variable("CARGO_CFG_TARGET_OS") == "linux" {
        // Cargo sets no soname, without which programs would record the path of the build folder.
        // Before 1.0 every minor version may change the ABI, so it is part of the name.
        let minor = variable("CARGO_PKG_VERSION_MINOR");
        let major = variable("CARGO_PKG_VERSION_MAJOR");
        let version = if major == "0" { format!("0.{minor}") } else { major };
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libumbo.so.{version}");
        // Threads and thread-locals of the library outlive dlclose.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

/// Packs a text, so that the library is megabytes smaller: `OUT_DIR/NAME.z`.
fn pack(folder: &Path, name: &str) -> std::io::Result<()> {
    let source = folder.join(name);
    println!("cargo::rerun-if-changed={}", source.display());
    let target = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join(format!("{name}.z"));
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&fs::read(source)?)?;
    fs::write(target, packed.finish()?)
}
