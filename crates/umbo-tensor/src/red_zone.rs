//! Red zones around memory that a program writes, and a pattern that shows which bytes it has
//! written.
//!
//! A callback that writes past the end of a buffer, or before its beginning, changes the pattern
//! of a red zone. A callback that leaves elements out, or writes when nobody may, is found by the
//! pattern in the buffer itself. Not every write is an assignment: `+=` and similar operators read
//! the pattern first. So they must change the pattern ([`Pattern`]).
//!
//! This works for memory of every device. It is not fast.

#![expect(
    unsafe_code,
    reason = "the pattern is written into memory that programs were given"
)]

use std::sync::Arc;

use crate::storage::{ALIGNMENT, Storage, exhausted};
use crate::{DType, Layout, Shape, Tensor};
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;

/// The least number of bytes of a red zone on each side.
pub const WIDTH: usize = 256;

/// A pattern of bytes that repeats. Each byte depends on its place in the storage.
///
/// For elements that are floats, the pattern is a signalling NaN. Each arithmetic operation turns
/// it into another NaN, for any other operand, and a value that is read by mistake spreads. No
/// bytes are signalling NaNs for floats of all sizes.
///
/// For elements that are integers or of unknown type, it is a number. As a float of any size it is
/// one of the smallest numbers, so that adding or subtracting more than 1e-38 changes it. Its
/// significand lies between 1 and 1.5, so that multiplying or dividing by anything but 1 changes
/// it, even if the operand is close to 1. It has few bits set, and the lowest bit of each byte is
/// not set, so that setting flags changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern([u8; 16]);

/// 1060; 6.3e-5 as a float16, 1.9e-36 as a bfloat16 and a float32, 1e-288 as a float64.
const NUMBER: u16 = 0x0424;

impl Pattern {
    /// The pattern for elements of any kind.
    pub const NUMBER: Pattern = Pattern::new(NUMBER, NUMBER);

    /// The pattern for memory without a type that may be read by mistake. It has 8 bytes that are a
    /// NaN as a float of any size, of which each operation changes only some; and 8 bytes that
    /// are the number.
    pub const MEMORY: Pattern = Pattern::new(0xFFF5, NUMBER);

    /// The pattern for elements of this type.
    pub fn of(dtype: DType) -> Pattern {
        let half = match dtype {
            DType::Float16 => 0xFC25,
            DType::BFloat16 | DType::Float32 => 0xFFA5,
            DType::Float64 => 0xFFF5,
            DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => NUMBER,
            DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => NUMBER,
            DType::Bool => NUMBER,
        };
        Pattern::new(half, half)
    }

    /// The pattern with `first` four times and then `second` four times.
    const fn new(first: u16, second: u16) -> Pattern {
        let mut bytes = [0; 16];
        let mut at = 0;
        while at < bytes.len() {
            let half = if at < bytes.len() / 2 { first } else { second };
            bytes[at] = half.to_ne_bytes()[at % 2];
            at += 1;
        }
        Pattern(bytes)
    }

    fn at(&self, place: usize) -> u8 {
        self.0[place % self.0.len()]
    }
}

/// Some bytes of a storage.
#[derive(Clone)]
pub struct Region {
    storage: Arc<Storage>,
    start: usize,
    bytes: usize,
    pattern: Pattern,
}

impl Region {
    /// The bytes of a contiguous tensor.
    pub fn of(tensor: &Tensor) -> Region {
        let (storage, start) = tensor.storage();
        let storage = Arc::clone(storage);
        let bytes = tensor.bytes();
        Region {
            storage,
            start,
            bytes,
            pattern: Pattern::of(tensor.dtype()),
        }
    }

    /// Whether these are the bytes of `tensor`.
    pub fn is_of(&self, tensor: &Tensor) -> bool {
        let (storage, start) = tensor.storage();
        Arc::ptr_eq(storage, &self.storage) && start == self.start
    }

    /// The number of bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn tensor(&self) -> Result<Tensor> {
        let layout = Layout::row_major(Shape::new(&[self.bytes])?);
        Tensor::from_storage(Arc::clone(&self.storage), DType::UInt8, layout, self.start)
    }

    fn pattern(&self, place: usize) -> u8 {
        self.pattern.at(self.start + place)
    }

    /// Writes the pattern to all bytes.
    ///
    /// # Safety
    /// Nobody reads or writes the bytes meanwhile.
    pub unsafe fn poison(&self) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let tensor = self.tensor()?;
        // SAFETY: the caller's promise.
        let mut bytes = unsafe { tensor.assume_exclusive() };
        bytes.through_host(false, |to| {
            let to = to.writing()?.data();
            for place in 0..self.bytes {
                // SAFETY: the view has as many bytes, and nobody else uses them.
                unsafe { to.add(place).write(self.pattern(place)) };
            }
            Ok(())
        })
    }

    /// Calls `inspect` with the present bytes.
    fn inspect<R>(&self, inspect: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if self.bytes == 0 {
            return Ok(inspect(&[]));
        }
        let on_host = self.tensor()?.on_host()?;
        let view = on_host.reading()?;
        let bytes = view.as_bytes();
        bytes
            .map(inspect)
            .ok_or_else(|| Error::Internal("bytes in a row are not contiguous".into()))
    }

    /// The first byte that differs from the pattern.
    pub fn first_changed(&self) -> Result<Option<usize>> {
        self.inspect(|bytes| {
            bytes
                .iter()
                .enumerate()
                .position(|(place, &byte)| byte != self.pattern(place))
        })
    }

    /// The last byte that differs from the pattern.
    fn last_changed(&self) -> Result<Option<usize>> {
        self.inspect(|bytes| {
            let mut bytes = bytes.iter().enumerate();
            bytes
                .rfind(|&(place, &byte)| byte != self.pattern(place))
                .map(|(place, _)| place)
        })
    }

    /// The first element, of `size` bytes each, that holds only the pattern.
    pub fn first_unwritten(&self, size: usize) -> Result<Option<usize>> {
        self.inspect(|bytes| {
            bytes
                .chunks_exact(size)
                .enumerate()
                .position(|(element, bytes)| {
                    let place = element * size;
                    bytes
                        .iter()
                        .enumerate()
                        .all(|(at, &byte)| byte == self.pattern(place + at))
                })
        })
    }

    /// A hash of the bytes: different bytes almost always have different hashes.
    pub fn fingerprint(&self) -> Result<u64> {
        self.inspect(|bytes| {
            use std::hash::{DefaultHasher, Hasher};
            let mut hasher = DefaultHasher::new();
            hasher.write(bytes);
            hasher.finish()
        })
    }
}

/// The patterns of memory for a program.
#[derive(Clone, Copy)]
pub struct Patterns {
    /// The pattern of the memory itself.
    pub within: Pattern,
    /// The pattern of the red zones around it.
    pub around: Pattern,
}

impl Patterns {
    /// One pattern for both, that of elements of a dtype.
    pub fn of(dtype: DType) -> Patterns {
        let pattern = Pattern::of(dtype);
        Patterns {
            within: pattern,
            around: pattern,
        }
    }
}

/// Memory for a program, between two red zones: memory on both sides with the pattern in it.
pub struct GuardedMemory {
    /// The bytes between the red zones.
    pub region: Region,
    ahead: Region,
    behind: Region,
}

impl GuardedMemory {
    /// `bytes` bytes of a storage from `start` on, full of their pattern, and red zones before them
    /// and from their end up to `end`. Nobody else uses this part of the storage, which has
    /// [`WIDTH`] bytes before `start` and at least as many behind the last byte.
    pub fn around(
        storage: &Arc<Storage>,
        start: usize,
        bytes: usize,
        end: usize,
        patterns: Patterns,
    ) -> Result<GuardedMemory> {
        let behind = start + bytes;
        let region = |start, bytes, pattern| {
            let storage = Arc::clone(storage);
            Region {
                storage,
                start,
                bytes,
                pattern,
            }
        };
        let guarded = GuardedMemory {
            region: region(start, bytes, patterns.within),
            ahead: region(start - WIDTH, WIDTH, patterns.around),
            behind: region(behind, end - behind, patterns.around),
        };
        guarded.raise()?;
        guarded.poison()?;
        Ok(guarded)
    }

    /// `bytes` bytes of `device` for elements of any kind, at a multiple of 64.
    pub fn new(bytes: usize, device: DeviceId) -> Result<GuardedMemory> {
        let patterns = Patterns {
            within: Pattern::MEMORY,
            around: Pattern::NUMBER,
        };
        GuardedMemory::with(bytes, device, patterns)
    }

    fn with(bytes: usize, device: DeviceId, patterns: Patterns) -> Result<GuardedMemory> {
        let too_large = || exhausted(bytes, device);
        let end = bytes
            .checked_add(WIDTH)
            .and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        let whole = end
            .and_then(|end| end.checked_add(WIDTH))
            .ok_or_else(too_large)?;
        let storage = Arc::new(Storage::uninitialized(whole, device)?);
        GuardedMemory::around(&storage, WIDTH, bytes, whole, patterns)
    }

    /// A contiguous tensor with a red zone around it. Its elements hold the pattern.
    pub fn tensor(dtype: DType, shape: Shape, device: DeviceId) -> Result<(Tensor, GuardedMemory)> {
        let guarded = GuardedMemory::with(shape.bytes(dtype)?, device, Patterns::of(dtype))?;
        let storage = Arc::clone(&guarded.region.storage);
        let tensor = Tensor::from_storage(storage, dtype, Layout::row_major(shape), WIDTH)?;
        Ok((tensor, guarded))
    }

    /// Fills the bytes between the red zones with the pattern. The callback that got them no longer
    /// uses them.
    pub fn poison(&self) -> Result<()> {
        // SAFETY: nobody has a right to the memory any more. A program that still uses it has a
        // mistake, which the pattern shows.
        unsafe { self.region.poison() }
    }

    /// Writes the pattern to both red zones again.
    pub fn raise(&self) -> Result<()> {
        // SAFETY: nobody was given the red zones, so a program that uses them has a mistake. The
        // bytes are written one by one, and so are not torn.
        unsafe {
            self.ahead.poison()?;
            self.behind.poison()
        }
    }

    /// The place at which a red zone was changed, if it was: the changed byte that is nearest to
    /// the bytes between them.
    pub fn breach(&self) -> Result<Option<String>> {
        if let Some(place) = self.behind.first_changed()? {
            return Ok(Some(format!(
                "past its end, at byte {}",
                self.region.bytes + place
            )));
        }
        let before = self.ahead.last_changed()?;
        Ok(before.map(|place| format!("before its beginning, at byte -{}", WIDTH - place)))
    }

    /// The device's address of the first byte.
    pub fn address(&self) -> *mut u8 {
        self.region
            .storage
            .address()
            .wrapping_add(self.region.start)
    }
}

#[cfg(test)]
mod tests;
