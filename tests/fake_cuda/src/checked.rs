//! How many accesses of kernels to memory were checked, by all processes together that name the same file.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ptx::kernel::{Kernel, Operation};
use crate::ptx::types::Space;

/// The number in the file, which processes share: one that is killed has counted, too.
pub struct Checked(Option<NonNull<AtomicU64>>);

// SAFETY: it is an address of what any thread may change, and that stays.
unsafe impl Send for Checked {}

impl Checked {
    /// Counts in `file`, which is made with a 0 if it is not there; nowhere without one.
    pub fn of(file: Option<&Path>) -> Checked {
        Checked(file.map(|path| {
            Checked::map(path).unwrap_or_else(|error| {
                eprintln!("fake-cuda: FAKE_CUDA_ACCESSES={}: {error}", path.display());
                std::process::abort()
            })
        }))
    }

    fn map(path: &Path) -> std::io::Result<NonNull<AtomicU64>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let bytes = size_of::<AtomicU64>();
        file.set_len(bytes as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is as long, which nobody shortens.
        let address = unsafe {
            let descriptor = file.as_raw_fd();
            libc::mmap(ptr::null_mut(), bytes, protection, libc::MAP_SHARED, descriptor, 0)
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        NonNull::new(address.cast()).ok_or(std::io::ErrorKind::InvalidData.into())
    }

    /// Counts the accesses of a launch, of whose instructions each ran so often.
    pub fn add(&self, kernel: &Kernel, counts: &[u64]) {
        let Some(total) = self.0 else { return };
        let of_memory = |operation: &Operation| match *operation {
            Operation::Load(number) | Operation::Store(number) | Operation::Atomic(number) => {
                kernel.accesses[number as usize].space != Space::Parameter
            }
            _ => false,
        };
        let ran = kernel.code.iter().zip(counts);
        let accesses = ran.filter(|(instruction, _)| of_memory(&instruction.operation));
        let accesses = accesses.map(|(_, count)| count).sum();
        // SAFETY: the mapping stays, and holds a number that is changed by such operations alone.
        unsafe { total.as_ref() }.fetch_add(accesses, Ordering::Relaxed);
    }
}
