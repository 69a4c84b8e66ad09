//! The computing libraries that the process has loaded: with which kernels, and with how many
//! threads, they compute.
//!
//! They are asked through functions of their own, which are looked up in what is loaded already.
//! Nothing is loaded for it. Wheels of Python carry OpenBLAS with other names of its functions, and
//! load it so that only they see it; so files whose names look like those of a computing library
//! are looked up one by one.

#![expect(
    unsafe_code,
    reason = "functions of other libraries are found and called"
)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem;
use std::path::Path;

pub use crate::vectors::Vectors;
use umbo_system::libraries::{self, Library as LoadedFile};

/// The subject of a computing library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// OpenBLAS.
    OpenBlas,
    /// Intel's MKL.
    Mkl,
    /// BLIS.
    Blis,
    /// An OpenMP runtime.
    OpenMp,
}

impl Maker {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Maker::OpenBlas => "OpenBLAS",
            Maker::Mkl => "MKL",
            Maker::Blis => "BLIS",
            Maker::OpenMp => "OpenMP",
        }
    }

    /// The environment variable that sets the number of its threads.
    pub fn variable(self) -> &'static str {
        match self {
            Maker::OpenBlas => "OPENBLAS_NUM_THREADS",
            Maker::Mkl => "MKL_NUM_THREADS",
            Maker::Blis => "BLIS_NUM_THREADS",
            Maker::OpenMp => "OMP_NUM_THREADS",
        }
    }
}

/// A computing library that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Its maker.
    pub maker: Maker,
    /// The name of its file.
    pub file: String,
    /// The processor for which its kernels are made, in its own words.
    pub kernels: Option<String>,
    /// Whether it has several sets of kernels, of which it has chosen these.
    pub chooses: bool,
    /// The number of threads each call of the calling thread may use.
    pub threads: Option<u32>,
}

impl Library {
    /// A text if the library computes with kernels that are older than a processor that has `has`:
    /// what it does, and what mends it.
    pub fn old_kernels(&self, has: Vectors) -> Option<String> {
        use Vectors::{Avx, Avx2, Avx512, Sse};
        let used = Vectors::of_kernels(self.kernels.as_deref()?)?;
        let (Sse | Avx, Avx2 | Avx512) = (used, has) else {
            return None;
        };
        let mends = match self.core_type(has) {
            Some(core) => format!(
                "Set OPENBLAS_CORETYPE={core} before the program starts, or use a newer OpenBLAS"
            ),
            None => format!(
                "Use {} in a newer version, or built for this processor",
                self.maker.name()
            ),
        };
        let cost = "matrix products take several times as long as they need";
        Some(format!("{}: {cost}. {mends}", self.uses(used, has)))
    }

    /// A text if the library computes with kernels that are one step behind a processor that has
    /// `has`. What that costs depends on the processor: AVX-512 is up to twice as fast as AVX2
    /// where it has two units, and no faster where each instruction takes two turns.
    pub fn lesser_kernels(&self, has: Vectors) -> Option<String> {
        use Vectors::{Avx2, Avx512, Neon, Sve};
        let used = Vectors::of_kernels(self.kernels.as_deref()?)?;
        let ((Avx2, Avx512) | (Neon, Sve)) = (used, has) else {
            return None;
        };
        let compare = match self.core_type(has) {
            Some(core) => format!("Compare with OPENBLAS_CORETYPE={core}"),
            None => format!("Compare with a newer {}", self.maker.name()),
        };
        let cost = "matrix products take up to twice as long, depending on the processor";
        Some(format!("{}: {cost}. {compare}", self.uses(used, has)))
    }

    fn uses(&self, used: Vectors, has: Vectors) -> String {
        format!(
            "{} ({}) computes with its {} kernels, which use {} on a processor that has {}",
            self.maker.name(),
            self.file,
            self.kernels.as_deref().unwrap_or_default(),
            used.name(),
            has.name()
        )
    }

    /// The value of OPENBLAS_CORETYPE for a processor that has `has`, if the library reads it.
    fn core_type(&self, has: Vectors) -> Option<&'static str> {
        let chooses = self.maker == Maker::OpenBlas && self.chooses;
        chooses.then_some(match has {
            Vectors::Avx512 => "SkylakeX",
            Vectors::Neon => "ARMV8",
            Vectors::Sve => "ARMV8SVE",
            _ => "Haswell",
        })
    }

    /// Whether its threads are more than `processors`, if `at_once` of the program's threads call
    /// it at the same time.
    pub fn has_too_many_threads(&self, at_once: u32, processors: u32) -> bool {
        let threads = u64::from(self.threads.unwrap_or(1));
        threads > 1 && threads * u64::from(at_once) > u64::from(processors)
    }

    /// A description: "OpenBLAS (libopenblas.so.0), Haswell kernels, 2 threads".
    pub fn in_words(&self) -> String {
        let mut text = format!("{} ({})", self.maker.name(), self.file);
        if let Some(kernels) = &self.kernels {
            text += &format!(", {kernels} kernels");
        }
        match self.threads {
            Some(1) => text += ", 1 thread",
            Some(threads) => text += &format!(", {threads} threads"),
            None => {}
        }
        text
    }
}

/// The old kernels with which libraries of this process compute, as texts.
pub fn old_kernels(libraries: &[Library]) -> Vec<String> {
    on_this_processor(libraries, Library::old_kernels)
}

/// The kernels of this process's libraries that are one step behind, as texts.
pub fn lesser_kernels(libraries: &[Library]) -> Vec<String> {
    on_this_processor(libraries, Library::lesser_kernels)
}

fn on_this_processor(
    libraries: &[Library],
    say: impl Fn(&Library, Vectors) -> Option<String>,
) -> Vec<String> {
    let Some(has) = Vectors::of_processor() else {
        return Vec::new();
    };
    let texts = libraries.iter().filter_map(|library| say(library, has));
    texts.collect()
}

/// The computing libraries that are loaded now. A process that has loaded many files is searched
/// for some milliseconds.
pub fn loaded() -> Vec<Library> {
    let mut found = Found::default();
    let files = libraries::loaded();
    let has_core = files
        .iter()
        .any(|file| file_name(file).starts_with("libmkl_core"));
    found.look_in(&LoadedFile::program(), has_core);
    for file in files.iter().filter(|file| may_compute(&file_name(file))) {
        if let Some(file) = LoadedFile::if_loaded(file) {
            found.look_in(&file, has_core);
        }
    }
    found.libraries
}

/// Whether a file with this name may have functions of a computing library.
fn may_compute(name: &str) -> bool {
    ["blas", "mkl", "blis", "omp", "torch"]
        .iter()
        .any(|part| name.contains(part))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().map(OsStr::to_string_lossy);
    name.unwrap_or_default().into_owned()
}

/// The libraries that were found, and the addresses of the functions by which they were.
#[derive(Default)]
struct Found {
    libraries: Vec<Library>,
    known: Vec<*mut c_void>,
}

type Number = unsafe extern "C" fn() -> c_int;
type LongNumber = unsafe extern "C" fn() -> isize;
type Text = unsafe extern "C" fn() -> *const c_char;
type TextOf = unsafe extern "C" fn(c_int) -> *const c_char;

impl Found {
    /// Looks for the libraries among the functions of a loaded file.
    fn look_in(&mut self, loaded: &LoadedFile, has_mkl_core: bool) {
        for prefix in ["", "scipy_"] {
            for suffix in ["", "64_", "_64"] {
                let name = |function: &str| format!("{prefix}openblas_get_{function}{suffix}");
                self.find_open_blas(loaded, &name);
            }
        }
        if let Some((function, file)) = self.new_function(loaded, "bli_arch_query_id") {
            let kernels = symbol(loaded, "bli_arch_string").and_then(|text| {
                // SAFETY: these are BLIS's functions: the first takes nothing, the second the
                // number that it returns.
                unsafe {
                    text_of(mem::transmute::<*mut c_void, TextOf>(text)(
                        mem::transmute::<*mut c_void, Number>(function)(),
                    ))
                }
            });
            let threads = symbol(loaded, "bli_thread_get_num_threads").and_then(|function| {
                // SAFETY: BLIS's function takes nothing and returns a number as wide as a pointer.
                u32::try_from(unsafe { mem::transmute::<*mut c_void, LongNumber>(function)() }).ok()
            });
            self.add(Maker::Blis, file, kernels, threads);
        }
        if let Some((function, file)) = self.new_function(loaded, "MKL_Get_Max_Threads")
            // The first call of this file's function loads MKL.
            && (has_mkl_core || !file.starts_with("libmkl_rt"))
        {
            self.add(Maker::Mkl, file, None, number_of(function));
        }
        if let Some((function, file)) = self.new_function(loaded, "omp_get_max_threads") {
            self.add(Maker::OpenMp, file, None, number_of(function));
        }
    }

    fn find_open_blas(&mut self, loaded: &LoadedFile, name: &dyn Fn(&str) -> String) {
        let Some((function, file)) = self.new_function(loaded, &name("corename")) else {
            return;
        };
        // SAFETY: OpenBLAS's functions of these names take nothing and return a text.
        let text = |function| unsafe { text_of(mem::transmute::<*mut c_void, Text>(function)()) };
        let config = symbol(loaded, &name("config")).and_then(text);
        let threads = symbol(loaded, &name("num_threads")).and_then(number_of);
        self.add(Maker::OpenBlas, file, text(function), threads);
        if let Some(library) = self.libraries.last_mut() {
            library.chooses = config.is_some_and(|config| config.contains("DYNAMIC_ARCH"));
        }
    }

    fn add(&mut self, maker: Maker, file: String, kernels: Option<String>, threads: Option<u32>) {
        self.libraries.push(Library {
            maker,
            file,
            kernels,
            chooses: false,
            threads,
        });
    }

    /// A function by which no library was found yet, and the file that has it.
    fn new_function(&mut self, loaded: &LoadedFile, name: &str) -> Option<(*mut c_void, String)> {
        let function = symbol(loaded, name).filter(|function| !self.known.contains(function))?;
        self.known.push(function);
        let file = libraries::file_of(function)
            .map_or_else(|| "the program".into(), |path| file_name(&path));
        Some((function, file))
    }
}

/// The address of a function, if there is one with this name.
fn symbol(loaded: &LoadedFile, name: &str) -> Option<*mut c_void> {
    let found = loaded.symbol(&CString::new(name).ok()?);
    (!found.is_null()).then_some(found)
}

/// The number that a function without arguments returns.
fn number_of(function: *mut c_void) -> Option<u32> {
    // SAFETY: the caller gives the address of a function that takes nothing and returns an int.
    let number = unsafe { mem::transmute::<*mut c_void, Number>(function)() };
    u32::try_from(number).ok().filter(|&number| number > 0)
}

/// A text that lives as long as the process.
///
/// # Safety
/// It is NULL, or ends with a zero byte.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: it is not NULL, so it ends with a zero byte, as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_blas(kernels: &str, chooses: bool) -> Library {
        Library {
            maker: Maker::OpenBlas,
            file: "libopenblas.so.0".into(),
            kernels: Some(kernels.into()),
            chooses,
            threads: Some(2),
        }
    }

    #[test]
    fn kernels_that_are_older_than_the_processor_are_named() {
        let old_kernels = |kernels, has| open_blas(kernels, true).old_kernels(has);
        let text = old_kernels("Prescott", Vectors::Avx512).unwrap();
        assert!(
            text.contains("its Prescott kernels, which use SSE on a processor that has AVX-512"),
            "{text}"
        );
        assert!(text.contains("OPENBLAS_CORETYPE=SkylakeX"), "{text}");
        assert!(
            old_kernels("Sandybridge", Vectors::Avx2)
                .unwrap()
                .contains("OPENBLAS_CORETYPE=Haswell")
        );
        // These fit the processor, or are kernels of which nothing is known.
        for (kernels, has) in [
            ("Haswell", Vectors::Avx2),
            ("Zen", Vectors::Avx512),
            ("SkylakeX", Vectors::Avx512),
            ("neoversen1", Vectors::Avx2),
            ("", Vectors::Avx2),
            ("Prescott", Vectors::Sse),
            ("Prescott", Vectors::Avx),
        ] {
            assert_eq!(old_kernels(kernels, has), None, "{kernels} on {has:?}");
        }
        // One step behind is worth a comparison, and no more.
        let lesser_kernels = |kernels, has| open_blas(kernels, true).lesser_kernels(has);
        let text = lesser_kernels("Haswell", Vectors::Avx512).unwrap();
        let expected = "its Haswell kernels, which use AVX2 on a processor that has AVX-512: \
                        matrix products take up to twice as long";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.ends_with("Compare with OPENBLAS_CORETYPE=SkylakeX"),
            "{text}"
        );
        let text = lesser_kernels("neoversen1", Vectors::Sve).unwrap();
        assert!(text.contains("NEON on a processor that has SVE"), "{text}");
        for (kernels, has) in [
            ("Prescott", Vectors::Avx512),
            ("Haswell", Vectors::Avx2),
            ("Zen", Vectors::Avx512),
            ("SkylakeX", Vectors::Avx512),
            ("neoversen1", Vectors::Neon),
            ("neoversev1", Vectors::Sve),
        ] {
            assert_eq!(lesser_kernels(kernels, has), None, "{kernels} on {has:?}");
        }
        // A library with one set of kernels cannot be told to use others.
        let text = open_blas("NEHALEM", false)
            .old_kernels(Vectors::Avx2)
            .unwrap();
        assert!(
            !text.contains("CORETYPE") && text.contains("built for this processor"),
            "{text}"
        );
    }

    #[test]
    fn threads_are_too_many_if_they_outnumber_the_processors() {
        let library = |threads| Library {
            threads,
            ..open_blas("Zen", true)
        };
        for (threads, at_once, processors, expected) in [
            (Some(2), 2, 2, true),
            (Some(1), 4, 2, false),
            (Some(2), 1, 2, false),
            (Some(4), 1, 2, true),
            (Some(2), 2, 4, false),
            (None, 8, 1, false),
        ] {
            let library = library(threads);
            assert_eq!(
                library.has_too_many_threads(at_once, processors),
                expected,
                "{threads:?}"
            );
        }
        assert_eq!(
            library(Some(2)).in_words(),
            "OpenBLAS (libopenblas.so.0), Zen kernels, 2 threads"
        );
    }
}
