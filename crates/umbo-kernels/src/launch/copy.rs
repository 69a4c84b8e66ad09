//! Copies between layouts, fills, conversions and additions in place.

use crate::copy::combine::check_combined;
use crate::copy::layouts::{bits, check_same};
use crate::launch::launcher::{Address, KernelLauncher, plain, short_name, unsigned_name};
use crate::launch::place::{DevicePlace, DeviceRuns};
use umbo_base::error::{Error, Result};

plain! {
    struct CopyEntry of 488 bytes {
        from: Address,
        to: Address,
        elements: u64,
        from_runs: DeviceRuns,
        to_runs: DeviceRuns,
    }
}

plain! {
    struct Fill of 256 bytes {
        to: Address,
        elements: u64,
        bits: u64,
        runs: DeviceRuns,
    }
}

/// The widths for which there are kernels.
const WIDTHS: [u64; 5] = [1, 2, 4, 8, 16];

impl CopyEntry {
    fn new(from: &DevicePlace, to: &DevicePlace) -> CopyEntry {
        CopyEntry {
            from: from.address,
            to: to.address,
            elements: to.elements(),
            from_runs: DeviceRuns::new(&from.layout),
            to_runs: DeviceRuns::new(&to.layout),
        }
    }

    /// The same bytes in the widest pieces that a kernel can copy, if both sides are dense, and the
    /// width of the pieces. Kernels do not look at the axes then.
    fn widest(self, width: u64) -> (CopyEntry, u64) {
        let is_dense = self.from_runs.is_dense() && self.to_runs.is_dense();
        let bytes = self.elements * width;
        let fits = |wide: u64| {
            [self.from, self.to, bytes]
                .iter()
                .all(|at| at.is_multiple_of(wide))
        };
        let wide = WIDTHS
            .into_iter()
            .rev()
            .find(|&wide| wide > width && is_dense && fits(wide));
        let width = wide.unwrap_or(width);
        (
            CopyEntry {
                elements: bytes / width,
                ..self
            },
            width,
        )
    }
}

impl KernelLauncher<'_> {
    /// Queues a copy for each pair: the elements of the first place go to the same positions of the
    /// second. It queues one kernel for each width of pieces.
    ///
    /// Fails with INVALID_ARGUMENT if dtype or shape differ within a pair; nothing is queued then.
    ///
    /// # Safety
    /// When the queued work reaches the copy, the first place of a pair may be read and the second
    /// written. Nobody else uses them at that time. Each written element is written by one copy
    /// only.
    pub unsafe fn copy(&self, pairs: &[(DevicePlace, DevicePlace)]) -> Result<()> {
        for (from, to) in pairs {
            check_same(from.kind(), to.kind())?;
        }
        let wide = |(from, to): &(DevicePlace, DevicePlace)| {
            CopyEntry::new(from, to).widest(to.dtype.size() as u64)
        };
        for width in WIDTHS {
            let copies = pairs
                .iter()
                .map(wide)
                .filter(|(_, pair_width)| *pair_width == width);
            let copies = copies.map(|(copy, _)| copy);
            // SAFETY: the caller's promise.
            unsafe { self.queue_copies(&format!("umbo_copy_{width}"), copies, &[])? };
        }
        Ok(())
    }

    /// Queues a fill: each element of the place becomes `value`, rounded to its type. bool becomes
    /// true if `value` is not 0. For integers, `value` is limited to the range of the type.
    ///
    /// # Safety
    /// As for the second place of a pair in [`KernelLauncher::copy`].
    pub unsafe fn fill(&self, place: &DevicePlace, value: f64) -> Result<()> {
        let fill = Fill {
            to: place.address,
            elements: place.elements(),
            bits: bits(place.dtype, value),
            runs: DeviceRuns::new(&place.layout),
        };
        let kernel = format!("umbo_fill_{}", place.dtype.size());
        let fills = std::iter::once(fill);
        // SAFETY: the caller's promise.
        unsafe { self.over_items(&kernel, fills, |fill| fill.elements, &[]) }
    }

    /// Queues a conversion: the elements of `to` become those of `from`, rounded once to their
    /// type. Floats only. Between equal types it is a copy.
    ///
    /// Fails with INVALID_ARGUMENT for other types, or if the shapes differ.
    ///
    /// # Safety
    /// As for [`KernelLauncher::copy`].
    pub unsafe fn convert(&self, from: &DevicePlace, to: &DevicePlace) -> Result<()> {
        check_same(
            (from.dtype, from.layout.shape),
            (from.dtype, to.layout.shape),
        )?;
        if from.dtype == to.dtype {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(&[(*from, *to)]) };
        }
        if !(from.dtype.is_float() && to.dtype.is_float()) {
            let problem = format!("{} to {}; only floats are converted", from.dtype, to.dtype);
            return Err(Error::invalid("dtype", problem));
        }
        let kernel = format!(
            "umbo_convert_{}_{}",
            short_name(from.dtype),
            short_name(to.dtype)
        );
        // SAFETY: the caller's promise.
        unsafe { self.queue_copies(&kernel, std::iter::once(CopyEntry::new(from, to)), &[]) }
    }

    /// Queues `to += from`, or `to -= from` if it `subtracts`, element by element. Integers wrap.
    /// Floats are rounded after the operation; 16-bit floats are computed in float32.
    ///
    /// Fails with INVALID_ARGUMENT if dtype or shape differ, and for bool.
    ///
    /// # Safety
    /// As for [`KernelLauncher::copy`].
    pub unsafe fn combine(
        &self,
        from: &DevicePlace,
        to: &DevicePlace,
        subtracts: bool,
    ) -> Result<()> {
        check_combined(from.kind(), to.kind(), subtracts)?;
        let kernel = format!("umbo_combine_{}", unsigned_name(from.dtype));
        let copy = std::iter::once(CopyEntry::new(from, to));
        // SAFETY: the caller's promise.
        unsafe { self.queue_copies(&kernel, copy, &[subtracts.into()]) }
    }

    /// # Safety
    /// As for [`KernelLauncher::copy`]. The kernel takes copies and then the arguments `after`.
    unsafe fn queue_copies(
        &self,
        kernel: &str,
        copies: impl Iterator<Item = CopyEntry> + Clone,
        after: &[u64],
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.over_items(kernel, copies, |copy| copy.elements, after) }
    }
}
