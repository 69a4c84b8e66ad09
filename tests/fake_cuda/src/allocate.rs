//! Allocations: of devices, and of host memory that devices can use.

use std::ffi::c_void;
use std::ptr;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::history::Conflict;
use crate::region::{Place, Region};
use crate::report::Mistake;
use crate::session::Session;

const ALLOCATION_FLAGS: u32 = 7;

impl Driver {
    /// Fails, as a mistake of the program, if no live device memory starts at an address.
    pub fn check_allocation(&mut self, who: &str, at: u64) -> Outcome {
        let problem = match self.memory.starting_at(at) {
            Some(region) if region.device().is_none() => "is memory of the host".to_string(),
            Some(region) => match &region.freed {
                None => return Ok(()),
                Some(by) => format!("was freed by {by}"),
            },
            None => "is not what an allocation gave".into(),
        };
        Err(self.misuse(Code::INVALID_VALUE, &format!("{who}: {at:#x} {problem}")))
    }

    /// Memory is given up by the host: all uses of it must be known to be over.
    fn check_unused(&mut self, who: &str, at: u64) {
        let host = self.host.clone();
        let Some(region) = self.memory.starting_at(at) else {
            return;
        };
        let open = region
            .history
            .conflict(0..region.bytes, true, |use_| use_.is_known_to(&host));
        if let Some(Conflict { earlier, .. }) = open {
            let text = format!(
                "{who} of {}, which {} may still use: the host has not waited for it",
                region.describe(),
                earlier.describe()
            );
            self.reports.add(Mistake::UseAfterFree, &text);
        }
    }
}

impl Session<'_> {
    /// Device memory; frees that wait are run first if there is not enough.
    pub fn allocate_in(&mut self, context: u32, bytes: u64) -> Outcome<u64> {
        loop {
            match self.memory.allocate(context as usize, bytes, context) {
                Err(Code::OUT_OF_MEMORY) if self.step() => self.usable(context)?,
                outcome => return outcome,
            }
        }
    }

    pub fn allocate(&mut self, bytes: usize) -> Outcome<u64> {
        let context = self.current()?;
        self.allocate_in(context, bytes as u64)
    }

    pub fn free(&mut self, at: u64) -> Outcome {
        self.current()?;
        if at == 0 {
            return Ok(());
        }
        self.check_allocation("free", at)?;
        self.check_unused("free", at);
        self.memory.release(at, "the host".into());
        Ok(())
    }

    /// Page-locked memory of whole pages.
    pub fn allocate_host(&mut self, bytes: usize, flags: u32) -> Outcome<*mut c_void> {
        let context = self.current()?;
        if bytes == 0 || flags & !ALLOCATION_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses; no memory in use is touched.
        let at = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.memory
            .add_host(at as u64, bytes as u64, Place::Locked, context);
        Ok(at)
    }

    pub fn free_host(&mut self, at: *mut c_void) -> Outcome {
        self.current()?;
        if at.is_null() {
            return Ok(());
        }
        let region = self.memory.starting_at(at as u64);
        let ours = region.filter(|r| r.freed.is_none() && matches!(r.place, Place::Locked));
        let Some(bytes) = ours.map(|region| region.bytes) else {
            let text = format!("free of host memory: {at:?} is not what an allocation gave");
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        };
        self.check_unused("free", at as u64);
        self.watches.forget(at as u64, bytes);
        self.memory.release(at as u64, "the host".into());
        // SAFETY: the range was mapped by `allocate_host` and is freed once; operations that
        // still name it find it freed.
        unsafe { libc::munmap(at, bytes as usize) };
        Ok(())
    }

    /// Locks memory of the program's, up to the limit of the settings.
    pub fn register_host(&mut self, at: *mut c_void, bytes: usize, flags: u32) -> Outcome {
        /// `CU_MEMHOSTREGISTER_PORTABLE`, without which other contexts do not know it as locked.
        const PORTABLE: u32 = 1;
        let context = self.current()?;
        let start = at as u64;
        let length = bytes as u64;
        if at.is_null() || bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        if flags != PORTABLE {
            return Err(self.misuse(Code::INVALID_VALUE, "registered memory is not portable"));
        }
        let is_known = |region: &Region| region.start < start + length && start < region.end();
        if self.memory.live().any(is_known) {
            let text = format!("{bytes} bytes at {at:?} are registered, or partly so");
            return Err(self.misuse(Code::HOST_MEMORY_ALREADY_REGISTERED, &text));
        }
        let registered = |region: &&Region| matches!(region.place, Place::Registered);
        let before: u64 = self
            .memory
            .live()
            .filter(registered)
            .map(|region| region.bytes)
            .sum();
        if before + length > self.settings.lockable {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.memory
            .add_host(start, length, Place::Registered, context);
        Ok(())
    }

    pub fn unregister_host(&mut self, at: *mut c_void) -> Outcome {
        self.current()?;
        let region = self.memory.starting_at(at as u64);
        let ours = region.filter(|r| r.freed.is_none() && matches!(r.place, Place::Registered));
        let Some(bytes) = ours.map(|region| region.bytes) else {
            let text = format!("unregistering: {at:?} is not registered");
            return Err(self.misuse(Code::HOST_MEMORY_NOT_REGISTERED, &text));
        };
        self.check_unused("unregistering", at as u64);
        self.watches.forget(at as u64, bytes);
        self.memory.release(at as u64, "the host".into());
        Ok(())
    }
}

impl Driver {
    /// Free and total bytes of the current device.
    pub fn memory_info(&self) -> Outcome<(usize, usize)> {
        let device = self.current()? as usize;
        Ok((
            self.memory.free_bytes(device) as usize,
            self.memory.total(device) as usize,
        ))
    }
}
