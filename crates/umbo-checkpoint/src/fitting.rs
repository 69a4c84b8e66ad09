//! Whether the tensors of a file are those that objects expect, and which of them are read.

use std::ops::Range;

use safetensors::tensor::Dtype;

use crate::header;
use crate::reader::{CheckpointFile, dtype_of, missing};
use crate::wanted::{PendingTensor, PlacedTensor, WantedTensors};
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_tensor::{DType, Shape, Tensor};

impl CheckpointFile<'_> {
    /// Adds the tensor `name`, for the object called `full_name`, to `wanted`, with which it will
    /// be read. If it is missing, or has another dtype or shape, a mismatch is noted.
    pub(super) fn want(
        &self,
        name: &str,
        full_name: &str,
        dtype: DType,
        shape: Shape,
        wanted: &mut WantedTensors,
        mismatches: &mut Vec<String>,
    ) -> Result<Option<PendingTensor>> {
        let Some(file) = self.indexed_file(name) else {
            let position = self.tensors.get_index_of(name);
            return self.want_at(
                position,
                name,
                full_name,
                (dtype, shape),
                wanted,
                mismatches,
            );
        };
        let info = file.info(name);
        let fits = self.fits(info, name, full_name, (dtype, shape), mismatches);
        fits.then(|| Ok(wanted.add_read(file.read_whole(name, dtype, shape)?)))
            .transpose()
    }

    /// The same of a tensor that is at `position` in this file itself, or nowhere.
    pub(super) fn want_at(
        &self,
        position: Option<usize>,
        name: &str,
        full_name: &str,
        (dtype, shape): (DType, Shape),
        wanted: &mut WantedTensors,
        mismatches: &mut Vec<String>,
    ) -> Result<Option<PendingTensor>> {
        let info = position.and_then(|position| self.info_at(position));
        let fits = self.fits(info, name, full_name, (dtype, shape), mismatches);
        let Some(position) = position.filter(|_| fits) else {
            return Ok(None);
        };
        Ok(Some(match self.sharding(name) {
            Some(_) => wanted.add_read(self.read_whole(name, dtype, shape)?),
            None => wanted.add(PlacedTensor {
                position,
                dtype,
                shape,
            }),
        }))
    }

    /// All elements of a tensor that is in this file or in its parts.
    fn read_whole(&self, name: &str, dtype: DType, shape: Shape) -> Result<Tensor> {
        match self.sharding(name) {
            Some(_) => self
                .read_part(name, dtype, 0..shape.elements())?
                .reshape(shape),
            None => self.read(name, dtype, shape),
        }
    }

    /// Checks a tensor as [`CheckpointFile::want`] does, but reads at once, and only a range of its
    /// elements.
    pub(super) fn read_part_expecting(
        &self,
        name: &str,
        dtype: DType,
        shape: Shape,
        part: &Range<usize>,
        mismatches: &mut Vec<String>,
    ) -> Result<Option<Tensor>> {
        let info = self.info(name);
        if !self.fits(info, name, name, (dtype, shape), mismatches) {
            return Ok(None);
        }
        if self.sharding(name).is_some() {
            return self.read_part(name, dtype, part.clone()).map(Some);
        }
        let whole = self
            .read(name, dtype, shape)?
            .reshape(Shape::new(&[shape.elements()])?)?;
        whole
            .slice(0, part.start, part.end, 1)?
            .to_contiguous()
            .map(Some)
    }

    /// Whether there is a tensor `name`, about which `info` is known, and it is of this dtype and
    /// shape, for the object called `full_name`. Differences are noted.
    fn fits(
        &self,
        info: Option<(Dtype, &[usize])>,
        name: &str,
        full_name: &str,
        (dtype, shape): (DType, Shape),
        mismatches: &mut Vec<String>,
    ) -> bool {
        let Some((there, sizes)) = info else {
            mismatches.push(format!("missing: the file has no tensor '{name}'"));
            return false;
        };
        let foreign = match self.foreign.is_empty() {
            true => None,
            false => self.foreign.get(name),
        };
        if foreign.is_none() && there == header::file_dtype(dtype) && *sizes == shape[..] {
            return true;
        }
        let called = match name == full_name {
            true => format!("'{name}'"),
            false => format!("'{full_name}' (in the file '{name}')"),
        };
        if foreign.is_some() || there != header::file_dtype(dtype) {
            let known = || dtype_of(there).map_or_else(|| there.to_string(), |it| it.to_string());
            let there = foreign.map_or_else(known, |foreign| foreign.dtype.clone());
            mismatches.push(format!(
                "dtype: {called} is {dtype} here, {there} in the file"
            ));
        }
        if foreign.is_none() && *sizes != shape[..] {
            mismatches.push(format!(
                "shape: {called} has {shape} here, {sizes:?} in the file"
            ));
        }
        false
    }

    /// Reads a range of elements of a divided tensor from the parts that contain them.
    fn read_part(&self, name: &str, dtype: DType, part: Range<usize>) -> Result<Tensor> {
        let boundaries = self
            .sharding(name)
            .map_or(&[][..], |sharding| &sharding.boundaries);
        let shape = Shape::new(&[part.len()])?;
        Tensor::made(dtype, shape, DeviceId::HOST, |to| {
            for (file, pair) in self.files().zip(boundaries.windows(2)) {
                let start = pair[0].max(part.start);
                let end = pair[1].min(part.end);
                if start < end {
                    let piece = file.read(name, dtype, Shape::new(&[pair[1] - pair[0]])?)?;
                    let piece = piece.slice(0, start - pair[0], end - pair[0], 1)?;
                    to.copy_part_from(0, start - part.start, &piece)?;
                }
            }
            Ok(())
        })
    }

    /// All elements of a tensor that is in this file itself.
    pub(super) fn read(&self, name: &str, dtype: DType, shape: Shape) -> Result<Tensor> {
        let position = self.tensors.get_index_of(name);
        let placed = PlacedTensor {
            position: position.ok_or_else(|| missing(name))?,
            dtype,
            shape,
        };
        self.read_all(&[placed])?.pop().ok_or_else(|| missing(name))
    }
}
