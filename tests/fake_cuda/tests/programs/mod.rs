//! What the tests' programs are made of: owners for what cudarc's plain functions give.
#![allow(dead_code, reason = "each test uses a part")]

use std::ffi::c_void;
use std::ptr::null_mut;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use fake_cuda::Control;

/// Starts the driver and makes the primary context of a device current.
pub fn device(ordinal: i32) -> sys::CUcontext {
    result::init().expect("the driver starts");
    let device = result::device::get(ordinal).expect("the device is there");
    // SAFETY: the device came from the driver.
    let context = unsafe { result::primary_ctx::retain(device) }.expect("it has a context");
    // SAFETY: the context is alive.
    unsafe { result::ctx::set_current(context) }.expect("it can be made current");
    context
}

/// A stream that no other waits for.
pub fn stream() -> sys::CUstream {
    result::stream::create(result::stream::StreamKind::NonBlocking).expect("a stream")
}

pub fn event() -> sys::CUevent {
    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).expect("an event")
}

pub fn record(event: sys::CUevent, stream: sys::CUstream) {
    // SAFETY: both are alive.
    unsafe { result::event::record(event, stream) }.expect("a record");
}

pub fn wait(stream: sys::CUstream, event: sys::CUevent) {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: both are alive.
    unsafe { result::stream::wait_event(stream, event, flags) }.expect("a wait");
}

pub fn synchronize(stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: the stream is alive or the driver says so.
    unsafe { result::stream::synchronize(stream) }
}

pub fn allocate(bytes: usize) -> u64 {
    // SAFETY: a context is current.
    unsafe { result::malloc_sync(bytes) }.expect("memory")
}

pub fn free(at: u64) -> Result<(), DriverError> {
    // SAFETY: whether this is right is for the driver to find out.
    unsafe { result::free_sync(at) }
}

pub fn free_async(at: u64, stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: whether this is right is for the driver to find out.
    unsafe { result::free_async(at, stream) }
}

/// Puts a copy from the program's memory on a stream.
pub fn upload<T>(to: u64, from: &[T], stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: the source is read before the call returns.
    unsafe { result::memcpy_htod_async(to, from, stream) }
}

/// Copies to the program's memory, which waits for the stream.
pub fn download<T: Copy + Default>(
    from: u64,
    count: usize,
    stream: sys::CUstream,
) -> Result<Vec<T>, DriverError> {
    let mut values = vec![T::default(); count];
    // SAFETY: the target is pageable, so the copy is made when the call returns.
    unsafe { result::memcpy_dtoh_async(&mut values, from, stream) }?;
    Ok(values)
}

pub fn copy(to: u64, from: u64, bytes: usize, stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: whether this is right is for the driver to find out.
    unsafe { result::memcpy_dtod_async(to, from, bytes, stream) }
}

pub fn fill(at: u64, value: u8, bytes: usize, stream: sys::CUstream) -> Result<(), DriverError> {
    // SAFETY: whether this is right is for the driver to find out.
    unsafe { result::memset_d8_async(at, value, bytes, stream) }
}

/// Page-locked memory of the host.
pub struct Pinned {
    at: *mut c_void,
    bytes: usize,
}

impl Pinned {
    pub fn new(bytes: usize) -> Pinned {
        // SAFETY: a context is current.
        let at = unsafe { result::malloc_host(bytes, 0) }.expect("page-locked memory");
        Pinned { at, bytes }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the range is mapped until `free`.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.bytes) }
    }

    pub fn address(&self) -> *mut c_void {
        self.at
    }

    pub fn upload(&self, to: u64, stream: sys::CUstream) {
        // SAFETY: whether this is right is for the driver to find out.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, self.at, self.bytes, stream) };
        code.result().expect("a copy");
    }

    pub fn download(&self, from: u64, stream: sys::CUstream) {
        // SAFETY: whether this is right is for the driver to find out.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(self.at, from, self.bytes, stream) };
        code.result().expect("a copy");
    }

    pub fn free(self) {
        // SAFETY: it was allocated by `new` and is freed once.
        unsafe { result::free_host(self.at) }.expect("a free");
    }
}

/// Waits for everything and frees what is given.
pub fn clean(memory: &[u64], streams: &[sys::CUstream], events: &[sys::CUevent]) {
    result::ctx::synchronize().expect("the work ends well");
    for at in memory {
        free(*at).expect("a free");
    }
    for stream in streams {
        // SAFETY: the stream is alive and used no more.
        unsafe { result::stream::destroy(*stream) }.expect("the end of a stream");
    }
    for event in events {
        // SAFETY: the event is alive and used no more.
        unsafe { result::event::destroy(*event) }.expect("the end of an event");
    }
}

pub const DEFAULT_STREAM: sys::CUstream = null_mut();

/// Runs a program with many seeds; returns in how many of them a mistake of a kind was found. A
/// mistake of another kind fails the test.
pub fn found(control: &Control, seeds: u64, kinds: &[&str], mut program: impl FnMut()) -> u64 {
    let mut count = 0;
    for seed in 0..seeds {
        control.seed(seed);
        program();
        let reports = control.take_reports();
        for report in &reports {
            let known = kinds.iter().any(|kind| report.starts_with(kind));
            assert!(known, "seed {seed}: {report}");
        }
        count += u64::from(!reports.is_empty());
    }
    count
}

/// A module of PTX.
pub struct Module(sys::CUmodule);

impl Module {
    pub fn new(text: &str) -> Module {
        Module::load(text).expect("the module can be loaded")
    }

    pub fn load(text: &str) -> Result<Module, DriverError> {
        let text = std::ffi::CString::new(text).expect("PTX has no zero");
        // SAFETY: the text ends with a zero.
        unsafe { result::module::load_data(text.as_ptr().cast()) }.map(Module)
    }

    pub fn function(&self, name: &str) -> sys::CUfunction {
        let name = std::ffi::CString::new(name).expect("a name has no zero");
        // SAFETY: the module is loaded.
        unsafe { result::module::get_function(self.0, name) }.expect("the kernel is there")
    }

    pub fn handle(&self) -> sys::CUmodule {
        self.0
    }

    pub fn unload(self) {
        // SAFETY: nothing of it is used any more.
        unsafe { result::module::unload(self.0) }.expect("the end of a module");
    }
}

/// Launches a kernel whose parameters have the widths that are given.
pub fn launch(
    function: sys::CUfunction,
    (blocks, threads): (u32, u32),
    stream: sys::CUstream,
    parameters: &[Parameter],
) -> Result<(), DriverError> {
    let mut values: Vec<u64> = parameters.iter().map(|parameter| parameter.bits()).collect();
    let mut pointers: Vec<*mut c_void> =
        values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
    let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
    // SAFETY: there is a pointer for each parameter, to at least its bytes.
    unsafe { result::launch_kernel(function, grid, block, 0, stream, &mut pointers) }
}

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug)]
pub enum Parameter {
    At(u64),
    Word(u32),
    Single(f32),
}

impl Parameter {
    fn bits(self) -> u64 {
        match self {
            Parameter::At(address) => address,
            Parameter::Word(value) => value.into(),
            Parameter::Single(value) => value.to_bits().into(),
        }
    }
}
