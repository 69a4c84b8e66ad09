//! The stand-in for CUDA on targets that have none, such as WebAssembly, and in a library without
//! the feature `cuda`: no device is found, and none is opened.

use crate::MemoryInfo;
use umbo_base::error::{Error, Result};

/// There are no CUDA devices.
pub fn probe() -> &'static Result<u32, String> {
    static PROBE: std::sync::OnceLock<Result<u32, String>> = std::sync::OnceLock::new();
    PROBE.get_or_init(|| Err(REASON.to_owned()))
}

/// No device has a name: NOT_FOUND.
pub fn device_name(ordinal: u32) -> Result<String> {
    Err(absent(ordinal))
}

/// No device has a compute capability: NOT_FOUND.
pub fn capability(ordinal: u32) -> Result<(u32, u32)> {
    Err(absent(ordinal))
}

/// No device has memory: NOT_FOUND.
pub fn memory_info(ordinal: u32) -> Result<MemoryInfo> {
    Err(absent(ordinal))
}

const REASON: &str = match cfg!(feature = "cuda") {
    true => "there is no CUDA on this target",
    false => "this library was built without the feature 'cuda'",
};

fn absent(ordinal: u32) -> Error {
    Error::NotFound(format!("GPU {ordinal} does not exist: {REASON}"))
}

/// Streams and memory pools of the program.
pub mod external {
    use umbo_base::error::Result;

    /// No GPU has streams: NOT_FOUND.
    pub fn check_stream(card: u32, _: usize) -> Result<()> {
        Err(super::absent(card))
    }

    /// No GPU has pools: NOT_FOUND.
    pub fn check_pool(card: u32, _: usize) -> Result<()> {
        Err(super::absent(card))
    }
}

/// Logical GPUs.
pub mod gpu {
    use crate::backend::{Address, Backend, Entered, KernelImages, Launch};
    use crate::logical_gpus::GpuAddress;
    use crate::{DeviceId, cuda};
    use std::ffi::c_void;
    use umbo_base::error::Result;

    /// A logical GPU, of which there are none.
    #[derive(Debug)]
    pub enum Gpu {}

    /// None was opened.
    pub(crate) fn any_open(_: std::ops::Range<u32>) -> Option<u32> {
        None
    }

    /// None was opened.
    pub(crate) fn opened() -> Vec<&'static Gpu> {
        Vec::new()
    }

    impl Gpu {
        /// None is opened: NOT_FOUND.
        pub fn at(place: GpuAddress) -> Result<&'static Gpu> {
            Err(cuda::absent(place.card))
        }

        /// None uses memory.
        pub fn used(_: GpuAddress) -> u64 {
            0
        }

        /// None has a name.
        pub fn id(&self) -> DeviceId {
            match *self {}
        }

        /// None keeps memory.
        pub fn release_kept(&self) {
            match *self {}
        }
    }

    impl Backend for Gpu {
        fn id(&self) -> DeviceId {
            match *self {}
        }

        fn physical_ordinal(&self) -> u32 {
            match *self {}
        }

        fn model(&self) -> &str {
            match *self {}
        }

        fn allocate(&self, _: usize) -> Result<Address> {
            match *self {}
        }

        unsafe fn free(&self, _: Address, _: usize) {
            match *self {}
        }

        unsafe fn upload(&self, _: *const u8, _: Address, _: usize) -> Result<()> {
            match *self {}
        }

        unsafe fn download(&self, _: Address, _: *mut u8, _: usize) -> Result<()> {
            match *self {}
        }

        unsafe fn copy(&self, _: Address, _: Address, _: usize) -> Result<()> {
            match *self {}
        }

        unsafe fn copy_from(
            &self,
            _: &dyn Backend,
            _: Address,
            _: Address,
            _: usize,
        ) -> Result<()> {
            match *self {}
        }

        unsafe fn fill_zeros(&self, _: Address, _: usize) -> Result<()> {
            match *self {}
        }

        fn synchronize(&self) -> Result<()> {
            match *self {}
        }

        fn load_kernels(&self, _: &KernelImages) -> Result<()> {
            match *self {}
        }

        unsafe fn launch(&self, _: &Launch<'_>) -> Result<()> {
            match *self {}
        }

        fn check(&self) -> Result<()> {
            match *self {}
        }

        fn give_up(&self, _: &str) {
            match *self {}
        }

        fn enter(&self) -> Result<Entered> {
            match *self {}
        }

        fn queue_handle(&self) -> *mut c_void {
            match *self {}
        }
    }
}
