//! Where kernels run in these tests: compiled as C++, on this machine; and as PTX, by the fake
//! driver, which interprets them.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use umbo_core::device::backend::Launch;
use umbo_core::device::cuda::gpu::Gpu;
use umbo_core::device::cuda::kernels::Kernels;
use umbo_core::device::memory::DeviceMemory;
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::Result;
use umbo_core::kernels::cuda::PTX;
use umbo_core::kernels::launch::{Address, KernelQueue, THREADS};

/// Something that runs kernels, and its memory.
pub trait Machine: KernelQueue {
    /// Memory that holds `bytes`, from a multiple of 256 on.
    fn memory(&self, bytes: &[u8]) -> Address;

    /// What memory holds, once all that was queued is done.
    fn read(&self, address: Address, bytes: usize) -> Vec<u8>;

    /// How much less it is given to do where there is much.
    fn slowness(&self) -> usize;
}

/// Makes tests of functions that take a machine, one for each machine.
macro_rules! on_every_machine {
    ($($test:ident)*) => {
        mod as_cpp {
            $(
                #[test]
                fn $test() {
                    super::$test(&$crate::machine::Host::default());
                }
            )*
        }
        mod as_ptx {
            $(
                #[test]
                fn $test() {
                    $crate::machine::on_the_fake_driver(super::$test);
                }
            )*
        }
    };
}
pub(crate) use on_every_machine;

/// Runs a test in a process whose driver is the fake one, which then has nothing to report.
pub fn on_the_fake_driver(test: fn(&dyn Machine)) {
    let Some(control) = fake_cuda::harness::under_driver(&[]) else {
        return;
    };
    let gpu = registry::gpu(DeviceId {
        kind: DeviceKind::Gpu,
        index: 0,
    })
    .unwrap();
    let kernels = gpu.card().kernels(|| &PTX).unwrap();
    let driver = Driver {
        gpu,
        kernels,
        memory: RefCell::default(),
    };
    test(&driver);
    gpu.synchronize().unwrap();
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    drop(driver);
    gpu.synchronize().unwrap();
    assert_eq!(control.live("memory"), 0);
}

/// The kernels as PTX, on a GPU.
struct Driver {
    gpu: &'static Gpu,
    kernels: &'static Kernels,
    memory: RefCell<Vec<DeviceMemory>>,
}

impl Driver {
    fn allocate(&self, bytes: usize) -> Result<Address> {
        let memory = DeviceMemory::new(self.gpu, bytes)?;
        let address = memory.address();
        self.memory.borrow_mut().push(memory);
        Ok(address)
    }
}

impl Machine for Driver {
    fn memory(&self, bytes: &[u8]) -> Address {
        self.upload(bytes).unwrap()
    }

    fn read(&self, address: Address, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        // SAFETY: tests read what they have allocated.
        unsafe {
            self.gpu
                .download(address, found.as_mut_ptr(), bytes)
                .unwrap()
        };
        found
    }

    fn slowness(&self) -> usize {
        25
    }
}

impl KernelQueue for Driver {
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            self.gpu.launch(
                self.kernels,
                &Launch {
                    kernel,
                    blocks,
                    threads: THREADS,
                    arguments,
                },
            )
        }
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        let address = self.allocate(bytes.len())?;
        // SAFETY: it was just made, for as many bytes.
        unsafe { self.gpu.upload(bytes.as_ptr(), address, bytes.len())? };
        Ok(address)
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        self.allocate(bytes)
    }
}

/// The names of all kernels, and whether they have barriers.
fn kernels() -> impl Iterator<Item = (&'static str, bool)> {
    PTX.split(".visible .entry ").skip(1).map(|body| {
        let name = body.split('(').next().unwrap();
        let body = &body[..body.find("// -- End function").unwrap()];
        (name, body.contains("bar.sync"))
    })
}

type HostLaunch = unsafe extern "C" fn(*const c_char, u32, *const *const u64) -> bool;

/// The kernels, compiled as C++.
#[derive(Default)]
pub struct Host {
    memory: RefCell<Vec<Vec<u128>>>,
}

impl Host {
    fn allocate(&self, bytes: usize) -> Address {
        const ALIGNMENT: usize = 256;
        // What is not written shows.
        let words = vec![u128::from_ne_bytes([0xa5; 16]); (bytes + ALIGNMENT) / 16 + 1];
        let address = words.as_ptr().addr().next_multiple_of(ALIGNMENT);
        self.memory.borrow_mut().push(words);
        address as Address
    }
}

impl Machine for Host {
    fn memory(&self, bytes: &[u8]) -> Address {
        let address = self.allocate(bytes.len());
        let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        // SAFETY: it was just allocated, for as many bytes.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        address
    }

    fn read(&self, address: Address, bytes: usize) -> Vec<u8> {
        let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: tests read what they have allocated.
        unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec()
    }

    fn slowness(&self) -> usize {
        1
    }
}

impl KernelQueue for Host {
    unsafe fn launch(&self, kernel: &str, blocks: u32, arguments: &[u64]) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { launch_as_cpp(kernel, blocks, arguments) };
        Ok(())
    }

    fn upload(&self, bytes: &[u8]) -> Result<Address> {
        Ok(self.memory(bytes))
    }

    fn scratch(&self, bytes: usize) -> Result<Address> {
        Ok(self.allocate(bytes))
    }
}

/// Runs a kernel that was compiled as C++.
///
/// # Safety
/// As for [`KernelQueue::launch`].
pub unsafe fn launch_as_cpp(kernel: &str, blocks: u32, arguments: &[u64]) {
    let name = CString::new(kernel).unwrap();
    let places: Vec<*const u64> = arguments.iter().map(std::ptr::from_ref).collect();
    // SAFETY: the caller's promise.
    let launched = unsafe { host_launch()(name.as_ptr(), blocks, places.as_ptr()) };
    assert!(launched, "no kernel {kernel}");
}

/// The function that launches the kernels, which are compiled anew.
fn host_launch() -> HostLaunch {
    static FUNCTION: LazyLock<HostLaunch> = LazyLock::new(|| {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cuda-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let calls: String = kernels()
            .map(|(name, barriers)| format!("CALL({name}, {barriers})\n"))
            .collect();
        std::fs::write(folder.join("umbo.inc"), calls).unwrap();
        let launch = compiled(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        launch
    });
    *FUNCTION
}

fn compiled(folder: &Path) -> HostLaunch {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let library = folder.join("kernels.so");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let status = Command::new(compiler)
        .args([
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            "-w",
            "-I",
        ])
        .arg(root.join("crates/umbo-kernels/src/cuda/source"))
        .arg("-I")
        .arg(folder)
        .arg("-o")
        .arg(&library)
        .arg(root.join("tests/cuda/host.cpp"))
        .status()
        .expect("a C++ compiler");
    assert!(status.success(), "the kernels do not compile as C++");
    let library = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: the library was just made, and has this function with this signature.
    unsafe {
        let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(
            !library.is_null(),
            "the kernels compiled as C++ do not load"
        );
        let function = libc::dlsym(library, c"host_launch".as_ptr());
        assert!(!function.is_null());
        std::mem::transmute::<*mut c_void, HostLaunch>(function)
    }
}
