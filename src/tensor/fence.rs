//! Fences around memory that a program writes, and a pattern that shows what it has written.
//!
//! Whoever writes behind the end of a buffer, or before its beginning, changes the pattern of a fence;
//! whoever leaves elements out, or writes when nobody should, is found by the pattern in the buffer
//! itself. Read as a float of any size, the pattern is a NaN: what is read by mistake spreads.
//!
//! All of this works for memory of every device. None of it is fast.

#![expect(unsafe_code, reason = "the pattern is written into memory that programs were given")]

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::tensor::storage::{ALIGNMENT, Storage, exhausted};
use crate::tensor::{DType, Layout, Shape, Tensor};

/// How many bytes a fence has, on each side at least.
pub const WIDTH: usize = 256;

/// The bytes of the pattern, by their places in a storage: -11 as an integer of 16 bits, a NaN as a
/// float16, a bfloat16, a float32 and a float64.
const PATTERN: [u8; 2] = [0xF5, 0xFF];

/// Some bytes of a storage.
#[derive(Clone)]
pub struct Region {
    storage: Arc<Storage>,
    start: usize,
    bytes: usize,
}

impl Region {
    /// `bytes` bytes from `start` on, which the storage has.
    pub fn new(storage: &Arc<Storage>, start: usize, bytes: usize) -> Region {
        Region { storage: Arc::clone(storage), start, bytes }
    }

    /// The bytes that a contiguous tensor consists of.
    pub fn of(tensor: &Tensor) -> Region {
        let (storage, start) = tensor.storage();
        Region::new(storage, start, tensor.bytes())
    }

    /// Whether these are the bytes of `tensor`.
    pub fn is_of(&self, tensor: &Tensor) -> bool {
        let (storage, start) = tensor.storage();
        Arc::ptr_eq(storage, &self.storage) && start == self.start
    }

    /// How many bytes there are.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn tensor(&self) -> Result<Tensor> {
        let layout = Layout::row_major(Shape::new(&[self.bytes])?);
        Tensor::from_storage(Arc::clone(&self.storage), DType::UInt8, layout, self.start)
    }

    fn pattern(&self, place: usize) -> u8 {
        PATTERN[(self.start + place) % PATTERN.len()]
    }

    /// Writes the pattern.
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
                // SAFETY: the view is of so many bytes, and nobody else is at them.
                unsafe { to.add(place).write(self.pattern(place)) };
            }
            Ok(())
        })
    }

    /// Shows the bytes as they are now to `look`.
    fn look<R>(&self, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        if self.bytes == 0 {
            return Ok(look(&[]));
        }
        let here = self.tensor()?.on_host()?;
        let view = here.reading()?;
        let bytes = view.as_bytes();
        bytes.map(look).ok_or_else(|| Error::Internal("bytes in a row are not contiguous".into()))
    }

    /// The first byte that is not the pattern's.
    pub fn first_changed(&self) -> Result<Option<usize>> {
        self.look(|bytes| {
            bytes.iter().enumerate().position(|(place, &byte)| byte != self.pattern(place))
        })
    }

    /// The last one.
    fn last_changed(&self) -> Result<Option<usize>> {
        self.look(|bytes| {
            let mut bytes = bytes.iter().enumerate();
            bytes.rfind(|&(place, &byte)| byte != self.pattern(place)).map(|(place, _)| place)
        })
    }

    /// The first of the elements of `size` bytes each that is nothing but the pattern.
    pub fn first_untouched(&self, size: usize) -> Result<Option<usize>> {
        self.look(|bytes| {
            bytes.chunks_exact(size).enumerate().position(|(element, bytes)| {
                let place = element * size;
                bytes.iter().enumerate().all(|(at, &byte)| byte == self.pattern(place + at))
            })
        })
    }

    /// A number that is another for other bytes, but for chance.
    pub fn fingerprint(&self) -> Result<u64> {
        self.look(|bytes| {
            use std::hash::{DefaultHasher, Hasher};
            let mut hasher = DefaultHasher::new();
            hasher.write(bytes);
            hasher.finish()
        })
    }
}

/// Memory on both sides of a buffer, with the pattern in it.
#[derive(Clone)]
pub struct Fence {
    ahead: Region,
    behind: Region,
}

/// Where a fence was changed, as close to its buffer as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The last byte that was changed lies so many bytes before the first one of the buffer.
    Before(usize),
    /// The first byte that was changed lies so many bytes behind the first one of the buffer.
    Behind(usize),
}

impl std::fmt::Display for Breach {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Breach::Before(bytes) => {
                write!(formatter, "before its beginning, at byte -{bytes}")
            }
            Breach::Behind(offset) => write!(formatter, "behind its end, at byte {offset}"),
        }
    }
}

impl Fence {
    /// The fence around `bytes` bytes from `start` on, up to `end`. The storage has [`WIDTH`] bytes
    /// before `start`, and `end` is as many behind the last byte, or more.
    pub fn around(storage: &Arc<Storage>, start: usize, bytes: usize, end: usize) -> Fence {
        let behind = start + bytes;
        Fence {
            ahead: Region::new(storage, start - WIDTH, WIDTH),
            behind: Region::new(storage, behind, end - behind),
        }
    }

    /// Makes the fence whole.
    pub fn raise(&self) -> Result<()> {
        // SAFETY: fences are no part of what anybody was given, so that a program that is at them has
        // a mistake. Bytes of one storage are written one by one, and so are not torn.
        unsafe {
            self.ahead.poison()?;
            self.behind.poison()
        }
    }

    /// Where it was changed, if it was.
    pub fn breach(&self) -> Result<Option<Breach>> {
        if let Some(place) = self.behind.first_changed()? {
            return Ok(Some(Breach::Behind(self.behind.start - self.ahead.end() + place)));
        }
        let before = self.ahead.last_changed()?;
        Ok(before.map(|place| Breach::Before(WIDTH - place)))
    }
}

impl Region {
    fn end(&self) -> usize {
        self.start + self.bytes
    }
}

/// A buffer of its own with a fence around it.
pub struct Fenced {
    /// The bytes between the fences.
    pub region: Region,
    /// What is around them.
    pub fence: Fence,
}

impl Fenced {
    /// `bytes` bytes of `device`, at a multiple of 64. They hold the pattern.
    pub fn new(bytes: usize, device: DeviceId) -> Result<Fenced> {
        let too_large = || exhausted(bytes, device);
        let end = bytes.checked_add(WIDTH).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        let whole = end.and_then(|end| end.checked_add(WIDTH)).ok_or_else(too_large)?;
        let storage = Arc::new(Storage::uninitialized(whole, device)?);
        let (region, fence) =
            (Region::new(&storage, WIDTH, bytes), Fence::around(&storage, WIDTH, bytes, whole));
        fence.raise()?;
        // SAFETY: nobody else knows the memory yet.
        unsafe { region.poison()? };
        Ok(Fenced { region, fence })
    }

    /// A contiguous tensor with a fence around it, full of the pattern.
    pub fn tensor(dtype: DType, shape: Shape, device: DeviceId) -> Result<(Tensor, Fenced)> {
        let fenced = Fenced::new(shape.bytes(dtype)?, device)?;
        let storage = Arc::clone(&fenced.region.storage);
        let tensor = Tensor::from_storage(storage, dtype, Layout::row_major(shape), WIDTH)?;
        Ok((tensor, fenced))
    }

    /// Fills the bytes between the fences with the pattern, once whoever was given them has to be done
    /// with them.
    pub fn spend(&self) -> Result<()> {
        // SAFETY: nobody has a right to the memory any more. A program that is at it nevertheless has
        // a mistake, which the pattern shows.
        unsafe { self.region.poison() }
    }

    /// The address of the first byte, as the device counts.
    pub fn address(&self) -> *mut u8 {
        self.region.storage.address().wrapping_add(self.region.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(fenced: &Fenced, offset: isize, byte: u8) {
        // SAFETY: within the storage of the fences, which nobody else has.
        unsafe { fenced.address().offset(offset).write(byte) };
    }

    #[test]
    fn each_byte_of_both_fences_is_watched() {
        for bytes in [0, 1, 63, 64, 100] {
            let fenced = Fenced::new(bytes, DeviceId::HOST).unwrap();
            assert!(fenced.address().addr().is_multiple_of(ALIGNMENT));
            assert_eq!(fenced.fence.breach().unwrap(), None);
            for offset in 0..bytes {
                write(&fenced, offset as isize, 0);
            }
            assert_eq!(fenced.fence.breach().unwrap(), None);
            for distance in 1..=WIDTH {
                write(&fenced, -(distance as isize), 7);
                assert_eq!(fenced.fence.breach().unwrap(), Some(Breach::Before(distance)));
                fenced.fence.raise().unwrap();
                let behind = bytes + distance - 1;
                write(&fenced, behind as isize, 7);
                assert_eq!(fenced.fence.breach().unwrap(), Some(Breach::Behind(behind)));
                fenced.fence.raise().unwrap();
            }
        }
    }

    #[test]
    fn the_pattern_is_no_number_and_shows_what_was_left_out() {
        let shape = Shape::new(&[5]).unwrap();
        let make = |dtype| Fenced::tensor(dtype, shape, DeviceId::HOST).unwrap();
        assert!(make(DType::Float64).0.to_vec::<f64>().unwrap()[4].is_nan());
        assert!(make(DType::Float16).0.to_vec::<half::f16>().unwrap()[4].is_nan());
        assert!(make(DType::BFloat16).0.to_vec::<half::bf16>().unwrap()[4].is_nan());
        let (tensor, fenced) = make(DType::Float32);
        assert!(tensor.to_vec::<f32>().unwrap().iter().all(|element| element.is_nan()));
        assert_eq!(fenced.region.first_untouched(4).unwrap(), Some(0));
        assert_eq!(fenced.region.first_changed().unwrap(), None);
        let before = fenced.region.fingerprint().unwrap();
        // A NaN of the processor's is not the pattern.
        let elements =
            Tensor::from_slice(&[0.0f32, f32::NAN, -1.0, 2.0, -f32::NAN], shape, DeviceId::HOST);
        // SAFETY: nobody else has the tensor.
        unsafe { tensor.assume_exclusive() }.copy_from(&elements.unwrap()).unwrap();
        assert_eq!(fenced.region.first_untouched(4).unwrap(), None);
        assert_eq!(fenced.region.first_changed().unwrap(), Some(0));
        assert_ne!(fenced.region.fingerprint().unwrap(), before);
    }
}
