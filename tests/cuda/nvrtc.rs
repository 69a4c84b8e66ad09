//! The kernels as NVIDIA's own compiler makes them of the same source, where it is installed: interpreted,
//! they pass the tests that clang's PTX passes.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;

/// Tests that launch all kernels between them and take seconds; with NVRTC_TESTS=all it is all there are.
const TESTS: [&str; 9] = [
    "copy::as_ptx::a_list_of_copies",
    "copy::as_ptx::every_float16_and_bfloat16_is_converted",
    "copy::as_ptx::fills",
    "gradients::as_ptx::gradients_are_written",
    "gradients::as_ptx::runs_are_accumulated",
    "replicas::as_ptx::a_list_of_reductions",
    "replicas::as_ptx::more_replicas_than_small_integers_are_added_exactly_in_float32",
    "table_updates::as_ptx::rows_of_tables",
    "update::as_ptx::a_list_of_variables_of_all_kinds",
];

/// NVRTC, by the functions that are needed.
struct Compiler {
    library: *mut c_void,
}

type Program = *mut c_void;

/// What pip has installed into a folder of Python's version, one of a package, and one of CUDA's.
fn installed() -> Option<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("build/engines/venv/lib")];
    for below in ["site-packages/nvidia", "lib/libnvrtc.so.13"] {
        let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        folders = entries.map(|entry| entry.unwrap().path().join(below)).collect();
    }
    let found = folders.into_iter().find(|path| path.exists());
    found.map(|path| path.to_str().unwrap().to_owned())
}

impl Compiler {
    /// The one that NVRTC names, one that the system finds, or that of `scripts/setup.sh engines`.
    fn find() -> Option<Compiler> {
        let named = std::env::var("NVRTC").ok();
        let names = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"];
        let names = match &named {
            Some(name) => vec![name.as_str()],
            None => names.to_vec(),
        };
        let open = |name: &str| {
            let name = CString::new(name).unwrap();
            // SAFETY: the name ends with a zero; the library's start is NVIDIA's.
            unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
        };
        let installed = installed();
        let names = names.into_iter().chain(installed.as_deref().filter(|_| named.is_none()));
        let library = names.map(open).find(|library| !library.is_null());
        assert!(named.is_none() || library.is_some(), "NVRTC names no library: {named:?}");
        Some(Compiler { library: library? })
    }

    /// # Safety
    /// The function has the type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> F {
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(self.library, name.as_ptr()) };
        assert!(!found.is_null() && size_of::<F>() == size_of::<*mut c_void>(), "{name:?}");
        // SAFETY: the caller's promise.
        unsafe { std::mem::transmute_copy(&found) }
    }

    fn version(&self) -> (c_int, c_int) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: nvrtc.h declares the function so.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
                self.function(c"nvrtcVersion");
            assert_eq!(version(&mut major, &mut minor), 0);
        }
        (major, minor)
    }

    /// The PTX of a source file for an architecture; `None` if the compiler has left that behind.
    fn compile(&self, source: &Path, architecture: &str) -> Option<String> {
        let text = CString::new(std::fs::read(source).unwrap()).unwrap();
        let name = CString::new(source.file_name().unwrap().to_str().unwrap()).unwrap();
        let folder = source.parent().unwrap().display();
        let options = [
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".into(),
            "--fmad=false".into(),
            format!("-I{folder}"),
        ];
        let options = options.map(|option| CString::new(option).unwrap());
        let pointers = options.each_ref().map(|option| option.as_ptr());
        // SAFETY: nvrtc.h declares the functions so; all pointers lead to what they say for as long as
        // the calls take.
        unsafe {
            type Create = unsafe extern "C" fn(
                *mut Program,
                *const c_char,
                *const c_char,
                c_int,
                *const *const c_char,
                *const *const c_char,
            ) -> c_int;
            let create: Create = self.function(c"nvrtcCreateProgram");
            let compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int =
                self.function(c"nvrtcCompileProgram");
            let mut program: Program = std::ptr::null_mut();
            let none = std::ptr::null();
            let made = create(&mut program, text.as_ptr(), name.as_ptr(), 0, none, none);
            assert_eq!(made, 0);
            let compiled = compile(program, pointers.len() as c_int, pointers.as_ptr());
            let log = self.text(program, c"nvrtcGetProgramLogSize", c"nvrtcGetProgramLog");
            if compiled != 0 && log.contains("invalid value for --gpu-architecture") {
                return None;
            }
            assert!(compiled == 0 && !log.contains("warning"), "{log}");
            Some(self.text(program, c"nvrtcGetPTXSize", c"nvrtcGetPTX"))
        }
    }

    /// # Safety
    /// The functions say how long a text of the program is, and give it.
    unsafe fn text(&self, program: Program, size: &CStr, get: &CStr) -> String {
        // SAFETY: the caller's promise; there is room.
        unsafe {
            let size: unsafe extern "C" fn(Program, *mut usize) -> c_int = self.function(size);
            let get: unsafe extern "C" fn(Program, *mut c_char) -> c_int = self.function(get);
            let mut bytes = 0;
            assert_eq!(size(program, &mut bytes), 0);
            let mut text = vec![0u8; bytes + 1];
            assert_eq!(get(program, text.as_mut_ptr().cast()), 0);
            CStr::from_bytes_until_nul(&text).unwrap().to_string_lossy().into_owned()
        }
    }
}

/// PTX of a version that the tests' driver takes. What is newer is refused by name when it is parsed.
fn for_the_driver(ptx: &str) -> String {
    let lines = ptx.lines().map(|line| match line.strip_prefix(".version ") {
        Some(version) if version.starts_with('9') => ".version 9.0",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs where NVRTC is.
#[test]
fn what_nvrtc_makes_has_the_same_bits() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(compiler) = Compiler::find() else {
        let why = "no libnvrtc.so; make test-engines installs one, or name it by NVRTC";
        return crate::skip("cuda.nvrtc", why);
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    std::fs::create_dir_all(&folder).unwrap();
    let program = std::env::current_exe().unwrap();
    let list = Command::new(&program).arg("--list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let mut tests: Vec<&str> =
        list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let all = std::env::var("NVRTC_TESTS").is_ok_and(|which| which == "all");
    tests.retain(|test| match all {
        true => test.contains("::as_ptx::"),
        false => TESTS.contains(test),
    });
    assert!(all || tests.len() == TESTS.len(), "a test has another name now");
    let mut tried = 0;
    for architecture in ["compute_70", "compute_75"] {
        let source = root.join("src/kernels/cuda/source/umbo.cu");
        let Some(ptx) = compiler.compile(&source, architecture) else {
            println!("NVRTC {:?} has no {architecture} any more", compiler.version());
            continue;
        };
        let module = folder.join(format!("{architecture}.ptx"));
        std::fs::write(&module, for_the_driver(&ptx)).unwrap();
        for test in &tests {
            let output = Command::new(&program)
                .args([test, "--exact"])
                .env("FAKE_CUDA_MODULE", &module)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{architecture}: {test}: {text}");
        }
        tried += 1;
        println!("NVRTC {:?}, {architecture}: {} tests", compiler.version(), tests.len());
    }
    assert!(tried > 0);
}
