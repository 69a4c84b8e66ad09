//! What the linker has to know, what the library says about its build, and the kernels of GPUs, packed.
//! Writes nothing else, unless the feature `headers` asks for the C headers.

use std::io::{self, Write};
use std::path::Path;
use std::{env, fs};

use lzma_rust2::{LzmaOptions, LzmaWriter};

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
    pack(Path::new("src/kernels/cuda"), &["umbo.ptx", "words.ptx"])
        .expect("the kernels can be packed");
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

/// Packs texts, with a NUL between them, as `OUT_DIR/ptx.lzma`: the library is megabytes smaller. They are
/// much alike, so that the second one needs almost nothing beside the first.
fn pack(folder: &Path, names: &[&str]) -> io::Result<()> {
    let texts: Vec<String> = names
        .iter()
        .map(|name| {
            let source = folder.join(name);
            println!("cargo::rerun-if-changed={}", source.display());
            fs::read_to_string(source)
        })
        .collect::<io::Result<_>>()?;
    let text = texts.join("\0");
    let mut options = LzmaOptions::with_preset(9);
    // No more than there is to look back on, since who unpacks has to provide as much.
    options.dict_size = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut packed = LzmaWriter::new_use_header(Vec::new(), &options, Some(text.len() as u64))?;
    packed.write_all(text.as_bytes())?;
    let target = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("ptx.lzma");
    fs::write(target, packed.finish()?)
}
