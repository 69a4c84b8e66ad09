//! The driver's own functions as tests call them: found in the library that the process loaded.

use std::ffi::{CString, c_char, c_int, c_void};

use crate::driver::Driver;
use crate::region::Place;

impl Driver {
    /// How many things of a kind are alive.
    pub fn live(&self, kind: &str) -> u64 {
        let count = match kind {
            "memory" => self.memory.live().filter(|region| region.device().is_some()).count(),
            "host memory" => {
                let locked = |place: &Place| matches!(place, Place::Locked | Place::Registered);
                self.memory.live().filter(|region| locked(&region.place)).count()
            }
            "streams" => {
                let defaults = |context: &crate::context::Context| {
                    context.per_thread.len() + usize::from(context.retained > 0)
                };
                let own: usize = self.contexts.iter().map(defaults).sum();
                let all = self.streams.all().filter(|stream| !stream.destroyed).count();
                all.saturating_sub(own)
            }
            "events" => self.events.count(),
            "modules" => self.modules.count(),
            "contexts" => self.contexts.iter().filter(|context| context.retained > 0).count(),
            _ => 0,
        };
        count as u64
    }
}

/// The fake driver that this process has loaded as libcuda.so.1.
pub struct Control(*mut c_void);

// SAFETY: a handle of a loaded library may be used by every thread.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// The loaded driver; `None` if none is to be found, or a real one.
    pub fn open() -> Option<Control> {
        // SAFETY: the name ends with a zero; the fake driver's start runs no code.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY) };
        let control = Control(library);
        (!library.is_null() && control.symbol("fake_cuda_reports").is_some()).then_some(control)
    }

    fn symbol(&self, name: &str) -> Option<*mut c_void> {
        let name = CString::new(name).ok()?;
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    fn need(&self, name: &str) -> *mut c_void {
        self.symbol(name).unwrap_or_else(|| panic!("the fake driver lacks {name}"))
    }

    /// The texts of all mistakes found so far.
    pub fn reports(&self) -> Vec<String> {
        // SAFETY: include/fake_cuda.h declares the function so.
        let count: extern "C" fn() -> usize =
            unsafe { std::mem::transmute(self.need("fake_cuda_reports")) };
        // SAFETY: as above.
        let text: unsafe extern "C" fn(usize, *mut c_char, usize) -> c_int =
            unsafe { std::mem::transmute(self.need("fake_cuda_report")) };
        (0..count())
            .map(|index| {
                let mut room = vec![0u8; 2048];
                // SAFETY: there is as much room as is said.
                unsafe { text(index, room.as_mut_ptr().cast(), room.len()) };
                let end = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
                String::from_utf8_lossy(&room[..end]).into_owned()
            })
            .collect()
    }

    /// The texts of all mistakes found so far, which are then forgotten.
    pub fn take_reports(&self) -> Vec<String> {
        let reports = self.reports();
        // SAFETY: include/fake_cuda.h declares the function so.
        let clear: extern "C" fn() =
            unsafe { std::mem::transmute(self.need("fake_cuda_clear_reports")) };
        clear();
        reports
    }

    /// Sets how many branches a launch may take before it fails as endless.
    pub fn limit_branches(&self, most: u64) {
        // SAFETY: include/fake_cuda.h declares the function so.
        let set: extern "C" fn(u64) =
            unsafe { std::mem::transmute(self.need("fake_cuda_limit_branches")) };
        set(most);
    }

    /// Makes contexts that an error broke usable again, so that one process can try many mistakes.
    pub fn mend(&self) {
        // SAFETY: include/fake_cuda.h declares the function so.
        let mend: extern "C" fn() = unsafe { std::mem::transmute(self.need("fake_cuda_mend")) };
        mend();
    }

    /// Starts the random numbers anew that decide in what order work runs.
    pub fn seed(&self, seed: u64) {
        // SAFETY: include/fake_cuda.h declares the function so.
        let set: extern "C" fn(u64) = unsafe { std::mem::transmute(self.need("fake_cuda_seed")) };
        set(seed);
    }

    fn with_text(&self, name: &str, text: &str) -> u64 {
        let text = CString::new(text).expect("the text has no zero");
        // SAFETY: include/fake_cuda.h declares the functions that are called here so.
        let function: unsafe extern "C" fn(*const c_char) -> u64 =
            unsafe { std::mem::transmute(self.need(name)) };
        // SAFETY: the text ends with a zero.
        unsafe { function(text.as_ptr()) }
    }

    /// Lets calls fail: `FUNCTION:NUMBER:CODE[:sticky],...`; an empty text ends it.
    pub fn fault(&self, text: &str) {
        let text = CString::new(text).expect("the text has no zero");
        // SAFETY: include/fake_cuda.h declares the function so.
        let set: unsafe extern "C" fn(*const c_char) -> c_int =
            unsafe { std::mem::transmute(self.need("fake_cuda_fault")) };
        // SAFETY: the text ends with a zero.
        let code = unsafe { set(text.as_ptr()) };
        assert_eq!(code, 0, "{text:?} is no fault");
    }

    /// How often a function was called since the faults were set; `*` is all of them.
    pub fn calls(&self, function: &str) -> u64 {
        self.with_text("fake_cuda_calls", function)
    }

    /// How many bytes copies have moved: `to device` and `to host` (over the bus), `between devices`,
    /// `within a device`. Copies that still wait do not count.
    pub fn moved(&self, over: &str) -> u64 {
        self.with_text("fake_cuda_moved", over)
    }

    /// How many faults happened since they were set.
    pub fn injected(&self) -> u64 {
        // SAFETY: include/fake_cuda.h declares the function so.
        let count: extern "C" fn() -> u64 =
            unsafe { std::mem::transmute(self.need("fake_cuda_injected")) };
        count()
    }

    /// How many instructions of kernels ran whose text begins with a prefix, such as `fma`.
    pub fn executed(&self, prefix: &str) -> u64 {
        self.with_text("fake_cuda_executed", prefix)
    }

    /// Instructions of a kernel that no launch executed so far, as `LINE TEXT`.
    pub fn never_executed(&self, kernel: &str) -> Vec<String> {
        let name = CString::new(kernel).expect("the text has no zero");
        // SAFETY: include/fake_cuda.h declares the function so.
        let list: unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> c_int =
            unsafe { std::mem::transmute(self.need("fake_cuda_never_executed")) };
        let mut room = vec![0u8; 1 << 20];
        // SAFETY: the name ends with a zero and there is as much room as is said.
        let code = unsafe { list(name.as_ptr(), room.as_mut_ptr().cast(), room.len()) };
        assert_eq!(code, 0, "{kernel} was never launched");
        let end = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
        let text = String::from_utf8_lossy(&room[..end]);
        text.lines().map(String::from).collect()
    }

    /// How many are alive: `memory`, `host memory`, `streams`, `events`, `contexts`, `modules`.
    pub fn live(&self, kind: &str) -> u64 {
        self.with_text("fake_cuda_live", kind)
    }

    /// Sets how much memory a device has.
    pub fn limit_memory(&self, device: i32, bytes: u64) {
        // SAFETY: include/fake_cuda.h declares the function so.
        let set: extern "C" fn(c_int, u64) -> c_int =
            unsafe { std::mem::transmute(self.need("fake_cuda_limit_memory")) };
        assert_eq!(set(device, bytes), 0, "there is no device {device}");
    }
}
