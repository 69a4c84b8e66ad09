//! Copies and fills: what is checked when they are asked for, and what they do when they run.

use std::ffi::c_void;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::driver::Driver;
use crate::handle::Raw;
use crate::operation::{Destination, Source, Stamp, Work};
use crate::report::Mistake;
use crate::session::Session;

/// Whether a call may return before its copy is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// The functions without a stream.
    Yes,
    /// The functions with a stream.
    No,
}

impl Session<'_> {
    /// The program's memory must not be device memory; giving one for the other is an exchange
    /// of source and target.
    fn check_host(&mut self, who: &str, pointer: *const c_void, bytes: usize) -> Outcome {
        if pointer.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let address = pointer as u64;
        if address.checked_add(bytes as u64).is_none() {
            return Err(Code::INVALID_VALUE);
        }
        if self.memory.is_device_address(address) {
            let text = format!("{who}: {address:#x} is device memory and should be the host's");
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        Ok(())
    }

    pub fn host_to_device(
        &mut self,
        to: u64,
        from: *const c_void,
        bytes: usize,
        stream: Raw,
        waits: Waits,
    ) -> Outcome {
        let stream = self.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let who = "copy to the device";
        self.check_host(who, from, bytes)?;
        self.check_range(who, to, bytes as u64)?;
        let locked = self.memory.page_locked(from as u64, bytes as u64).is_some();
        if !locked && waits == Waits::Yes {
            self.finish_stream(stream)?;
        }
        let source = if locked {
            Source::Address(from as u64)
        } else {
            // SAFETY: the program gives `bytes` readable bytes.
            Source::Staged(unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec())
        };
        let work = Work::Copy {
            from: source,
            to: Destination::Address(to),
            bytes: bytes as u64,
        };
        let stamp = self.enqueue(stream, who, work)?;
        if locked {
            self.watches.add(from as u64, bytes as u64, &stamp);
            if waits == Waits::Yes {
                return self.finish_stream(stream);
            }
        }
        Ok(())
    }

    pub fn device_to_host(
        &mut self,
        to: *mut c_void,
        from: u64,
        bytes: usize,
        stream: Raw,
        waits: Waits,
    ) -> Outcome {
        let stream = self.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let who = "copy to the host";
        self.check_host(who, to, bytes)?;
        self.check_range(who, from, bytes as u64)?;
        let locked = self.memory.page_locked(to as u64, bytes as u64).is_some();
        let target = if locked {
            Destination::Address(to as u64)
        } else {
            Destination::Pageable(to.cast())
        };
        let work = Work::Copy {
            from: Source::Address(from),
            to: target,
            bytes: bytes as u64,
        };
        let stamp = self.enqueue(stream, who, work)?;
        if locked {
            self.watches.add(to as u64, bytes as u64, &stamp);
        }
        // With pageable memory the call returns when the copy is made.
        if !locked || waits == Waits::Yes {
            self.finish_stream(stream)
        } else {
            Ok(())
        }
    }

    pub fn device_to_device(&mut self, to: u64, from: u64, bytes: usize, stream: Raw) -> Outcome {
        self.check_pools(to, from)?;
        self.copy_within_devices(to, from, bytes, stream)
    }

    fn copy_within_devices(&mut self, to: u64, from: u64, bytes: usize, stream: Raw) -> Outcome {
        let stream = self.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        let who = "copy between devices' memory";
        let bytes = bytes as u64;
        self.check_range(who, from, bytes)?;
        self.check_range(who, to, bytes)?;
        if to < from + bytes && from < to + bytes {
            let text = format!("{who}: {bytes} bytes at {from:#x} and {to:#x} overlap");
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        let work = Work::Copy {
            from: Source::Address(from),
            to: Destination::Address(to),
            bytes,
        };
        self.enqueue(stream, who, work).map(drop)
    }

    /// Without the contexts a copy between devices needs that the pools of both sides are open to
    /// the other.
    fn check_pools(&mut self, to: u64, from: u64) -> Outcome {
        let side = |address| {
            let region = self.memory.holding(address)?;
            Some((region.device()?, region.pool))
        };
        let (Some((to, to_pool)), Some((from, from_pool))) = (side(to), side(from)) else {
            return Ok(());
        };
        let open = |pool: Option<u32>, other: usize| {
            pool.is_none_or(|pool| self.is_open(pool, other as u32))
        };
        if !open(to_pool, from) || !open(from_pool, to) {
            let text = format!(
                "copy between devices' memory: the pools of devices {from} and {to} give no access"
            );
            return Err(self.misuse(Code::INVALID_VALUE, &text));
        }
        Ok(())
    }

    /// A copy whose caller says which context each side belongs to.
    pub fn peer_copy(
        &mut self,
        to: (u64, Raw),
        from: (u64, Raw),
        bytes: usize,
        stream: Raw,
    ) -> Outcome {
        for (address, context) in [to, from] {
            let context = self.live_context(context)?;
            let owner = self
                .memory
                .holding(address)
                .and_then(|region| region.device());
            if bytes > 0 && owner.is_some_and(|owner| owner != context as usize) {
                let text = format!(
                    "peer copy: {address:#x} is not memory of device {context}, as the call says"
                );
                return Err(self.misuse(Code::INVALID_VALUE, &text));
            }
        }
        self.copy_within_devices(to.0, from.0, bytes, stream)
    }

    pub fn fill(&mut self, at: u64, value: u8, count: usize, stream: Raw) -> Outcome {
        let stream = self.stream(stream)?;
        if count == 0 {
            return Ok(());
        }
        self.check_range("fill", at, count as u64)?;
        self.enqueue(
            stream,
            "fill",
            Work::Fill {
                at,
                value,
                bytes: count as u64,
            },
        )
        .map(drop)
    }
}

impl Driver {
    /// Runs a copy.
    pub fn run_copy(
        &mut self,
        stamp: &Arc<Stamp>,
        from: &Source,
        to: &Destination,
        bytes: u64,
    ) -> Outcome {
        let source = match from {
            Source::Staged(staged) => staged.as_ptr(),
            Source::Address(at) => self.touch(stamp, *at, bytes, false)?.cast_const(),
        };
        let target = match to {
            Destination::Address(at) => self.touch(stamp, *at, bytes, true)?,
            Destination::Pageable(at) => *at,
        };
        self.watches.check(stamp, &mut self.reports);
        // SAFETY: both ranges were found alive just now, or are the program's for the time of
        // the call that waits for this copy; they do not overlap, as one is the host's or both
        // were compared.
        unsafe { std::ptr::copy(source, target, bytes as usize) };
        match (from, to) {
            (Source::Address(from), Destination::Address(to)) => {
                self.wrote_copy(*from, *to, bytes);
                if self.memory.page_locked(*to, bytes).is_some() {
                    self.demand_initialised(stamp, *from, bytes);
                }
            }
            (Source::Staged(_), Destination::Address(to)) => self.wrote(*to, bytes),
            (Source::Address(from), Destination::Pageable(_)) => {
                self.demand_initialised(stamp, *from, bytes);
            }
            (Source::Staged(_), Destination::Pageable(_)) => {}
        }
        self.watches.copied(stamp);
        self.count_moved(from, to, bytes);
        Ok(())
    }

    /// Bytes that reach the host must have been written. Copies within devices may carry
    /// others along, such as padding.
    fn demand_initialised(&mut self, stamp: &Stamp, from: u64, bytes: u64) {
        if let Some(offset) = self.first_uninitialised(from, bytes) {
            let place = self.memory.holding(from).map(|region| region.describe());
            let text = format!(
                "{} reads byte {offset} of {}, which nothing wrote",
                stamp.describe(),
                place.unwrap_or_default()
            );
            self.reports.add(Mistake::Uninitialised, &text);
        }
    }

    /// Runs a fill.
    pub fn run_fill(&mut self, stamp: &Arc<Stamp>, at: u64, value: u8, bytes: u64) -> Outcome {
        let target = self.touch(stamp, at, bytes, true)?;
        // SAFETY: `touch` found the whole range alive, and the driver is locked.
        unsafe { target.write_bytes(value, bytes as usize) };
        self.wrote(at, bytes);
        Ok(())
    }
}
