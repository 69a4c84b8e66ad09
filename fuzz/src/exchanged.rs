//! Structs of DLPack whose memory is there and whose numbers are anything.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};

use umbo_core::tensor::dlpack::ffi::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};
use umbo_core::tensor::dlpack::{DlpackFlags, ManagedForm, import};

/// As many elements as the memory has. What reaches further is the producer's lie, which nobody can
/// see, so a target that reads elements would not find mistakes of ours.
const BYTES: usize = 64;

/// Takes numbers from the input, and zeros past its end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let count = N.min(self.0.len());
        taken[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        taken
    }
}

static RELEASED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn release<F>(managed: *mut F) {
    RELEASED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: it is a box that `attempt` has leaked.
    drop(unsafe { Box::from_raw(managed) });
}

pub fn run(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let [legacy, has_strides, has_data, pinned] = numbers.take();
    let mut memory = [0u64; BYTES / 8];
    let mut shape = [0i64; 10];
    let mut strides = [0i64; 10];
    let rank = i32::from(numbers.take::<1>()[0] as i8);
    for size in shape.iter_mut().chain(&mut strides) {
        // Mostly small, and now and then anything.
        let [kind] = numbers.take();
        *size = match kind {
            0..=250 => i64::from(kind as i8 % 5),
            _ => i64::from_le_bytes(numbers.take()),
        };
    }
    let [code, bits, low, high] = numbers.take();
    let dl_tensor = DLTensor {
        data: if has_data == 0 {
            ptr::null_mut()
        } else {
            memory.as_mut_ptr().cast::<c_void>()
        },
        device: DLDevice {
            device_type: DLDeviceType(i32::from(pinned as i8) as u32),
            device_id: i32::from_le_bytes(numbers.take()),
        },
        ndim: rank,
        dtype: DLDataType {
            code: DLDataTypeCode(code),
            bits,
            lanes: u16::from_le_bytes([low, high]),
        },
        shape: shape.as_mut_ptr(),
        strides: if has_strides == 0 {
            ptr::null_mut()
        } else {
            strides.as_mut_ptr()
        },
        byte_offset: u64::from_le_bytes(numbers.take()),
    };
    let manager_ctx = ptr::null_mut();
    if legacy % 2 == 0 {
        attempt(
            DLManagedTensor {
                dl_tensor,
                manager_ctx,
                deleter: Some(release),
            },
            rank,
        );
    } else {
        let [major, minor] = numbers.take().map(u32::from);
        let version = DLPackVersion { major, minor };
        let flags = DlpackFlags::from_bits_retain(u64::from_le_bytes(numbers.take()));
        attempt(
            DLManagedTensorVersioned {
                version,
                manager_ctx,
                deleter: Some(release),
                flags,
                dl_tensor,
            },
            rank,
        );
    }
}

/// Who refuses leaves the struct to its owner; who takes it over releases it once.
fn attempt<F: ManagedForm>(managed: F, rank: i32) {
    let managed = NonNull::from(Box::leak(Box::new(managed)));
    let before = RELEASED.load(Ordering::Relaxed);
    // SAFETY: the struct and what it leads to live until this function ends; nobody writes the
    // elements.
    match unsafe { import(managed) } {
        Err(_) => {
            assert_eq!(
                RELEASED.load(Ordering::Relaxed),
                before,
                "released and refused"
            );
            // SAFETY: leaked above, and nobody's but ours.
            drop(unsafe { Box::from_raw(managed.as_ptr()) });
        }
        Ok(tensor) => {
            assert_eq!(tensor.shape().rank(), rank as usize);
            drop(tensor);
            assert_eq!(
                RELEASED.load(Ordering::Relaxed),
                before + 1,
                "taken over, but not released"
            );
        }
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    // Legacy, with strides, data and the CPU; rank 2; [2, 3] with strides [3, 1]; float32.
    let mut good = vec![0, 1, 1, 1, 2, 2, 3];
    good.extend([0; 8]);
    good.extend([3, 1]);
    good.extend([0; 8]);
    good.extend([2, 32, 1, 0]);
    let mut versioned = good.clone();
    versioned[0] = 1;
    versioned.extend([0; 12]);
    versioned.extend([1, 0]);
    vec![good, versioned]
}
