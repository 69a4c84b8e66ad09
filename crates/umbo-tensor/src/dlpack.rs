//! Tensors from other libraries, and tensors for other libraries, as DLPack describes them.
//!
//! DLPack is a layout in memory that array libraries share. It says where elements lie, and has a
//! function that releases them. A managed tensor has two forms. The versioned form begins with the
//! version of the layout, and can mark elements as read-only. The other form is older. Nothing is
//! copied in either direction. The structs are the crate `dlpark`'s, made from DLPack's header.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use dlpark::ManagedTensorBase;
use dlpark::ffi::{
    DLDataType, DLDataTypeCode, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned,
    DLPackVersion, DLTensor,
};

use crate::storage::Storage;
use crate::{DType, Layout, MAX_RANK, Shape, Tensor};
use umbo_base::error::{Error, Result};
use umbo_device::{DeviceId, registry};
use umbo_executor::floating_point::{in_library, in_program};

pub use dlpark::{DlpackFlags, ffi};

/// The version that exported tensors declare. Other versions with the same major number have the
/// same layout.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 0 };

/// A form of managed tensors.
pub trait ManagedForm: ManagedTensorBase + Sized + 'static {
    /// Declares the version of an exported tensor, and whether its elements may only be read. Fails
    /// if the form cannot mark them so.
    fn declare(&mut self, read_only: bool) -> Result<()>;
}

impl ManagedForm for DLManagedTensorVersioned {
    fn declare(&mut self, read_only: bool) -> Result<()> {
        self.version = VERSION;
        self.flags.set(DlpackFlags::READ_ONLY, read_only);
        Ok(())
    }
}

impl ManagedForm for DLManagedTensor {
    fn declare(&mut self, read_only: bool) -> Result<()> {
        if !read_only {
            return Ok(());
        }
        Err(invalid!(
            "tensor",
            "its elements are only to be read, which the older form of DLPack cannot say; give the \
             versioned form, or a copy"
        ))
    }
}

/// A managed tensor and everything to which it points. The form comes first, so that both have the
/// same address.
#[repr(C)]
struct Exported<F> {
    form: F,
    shape: [i64; MAX_RANK],
    strides: [i64; MAX_RANK],
    /// Keeps the elements alive.
    _tensor: Tensor,
}

/// The tensor for another library. That library calls the deleter of the result when it no longer
/// uses the elements. Until then the elements stay, even if everyone else drops the tensor.
/// Elements outside of host memory are complete when this returns, so that any stream may use them.
///
/// Fails with INVALID_ARGUMENT if the elements are read-only and the form cannot mark them so, and
/// with UNAVAILABLE for memory of a device that cannot be used.
pub fn export<F: ManagedForm>(tensor: &Tensor) -> Result<NonNull<F>> {
    let layout = tensor.layout();
    let mut shape = [0; MAX_RANK];
    let mut strides = [0; MAX_RANK];
    for (to, &size) in shape.iter_mut().zip(layout.shape.iter()) {
        *to = size as i64;
    }
    for (to, &stride) in strides.iter_mut().zip(layout.strides()) {
        *to = stride as i64;
    }
    let elements = DLTensor {
        data: tensor.address().cast(),
        device: device_to(tensor.device())?,
        ndim: layout.shape.rank() as i32,
        dtype: data_type_of(tensor.dtype()),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let mut form = F::from_parts(elements, ptr::null_mut(), Some(delete::<F>));
    form.declare(tensor.is_read_only())?;
    let exported = Exported {
        form,
        shape,
        strides,
        _tensor: tensor.clone(),
    };
    let exported = Box::into_raw(Box::new(exported));
    // SAFETY: it was just made, and nobody else has it. The two arrays are reached through the
    // pointer to the whole, so that they may be used as long as it.
    unsafe {
        let shape = (&raw mut (*exported).shape).cast();
        let strides = (&raw mut (*exported).strides).cast();
        let elements = (*exported).form.tensor_mut();
        elements.shape = shape;
        elements.strides = strides;
        Ok(NonNull::new_unchecked(exported.cast()))
    }
}

/// The deleter of exported tensors.
///
/// # Safety
/// `managed` is null or came from [`export`], and this is the first call for it.
unsafe extern "C" fn delete<F: ManagedForm>(managed: *mut F) {
    if managed.is_null() {
        return;
    }
    let exported = ptr::slice_from_raw_parts_mut(managed.cast::<Exported<F>>(), 1);
    // SAFETY: `export` made the box and passed it on once.
    in_library(|| drop(unsafe { Box::from_raw(exported) }));
}

/// Owns what a producer passed, until the last tensor over it is dropped.
struct ExportOwner<F: ManagedForm> {
    managed: NonNull<F>,
    /// Whether the memory is outside of the host's, so that work on it may still be queued.
    on_device: bool,
}

// SAFETY: a deleter may be called on any thread, as DLPack says. The rest is only read while this
// is made.
unsafe impl<F: ManagedForm> Send for ExportOwner<F> {}
// SAFETY: as above.
unsafe impl<F: ManagedForm> Sync for ExportOwner<F> {}

impl<F: ManagedForm> Drop for ExportOwner<F> {
    fn drop(&mut self) {
        if self.on_device {
            registry::synchronize_all();
        }
        // SAFETY: it belongs to a producer and was taken over, and no tensor uses it any more.
        unsafe {
            if let Some(deleter) = self.managed.as_ref().deleter() {
                in_program(|| deleter(self.managed.as_ptr()));
            }
        }
    }
}

/// A tensor over the elements of another library. The producer's deleter is called when the last
/// tensor over the memory is dropped, on any thread. If this fails, the managed tensor still
/// belongs to the caller.
///
/// Fails with INVALID_ARGUMENT for a rank out of range, for no address, for a wrong size or stride,
/// and for elements that do not lie at multiples of their size; with UNIMPLEMENTED for another
/// version, for memory of a type that no kind of device has, for element types that Umbo does not
/// have, and for negative strides; with NOT_FOUND if there is no such device.
///
/// # Safety
/// `managed` points to a managed tensor of a producer. Its elements exist and are initialised until
/// its deleter is called. Others that write them follow the rule of [`crate`].
pub unsafe fn import<F: ManagedForm>(managed: NonNull<F>) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    let form = unsafe { managed.as_ref() };
    if let Some(version) = form.version() {
        check_version(version)?;
    }
    let elements = form.tensor();
    let device = device_from(elements.device)?;
    let dtype = dtype_from(elements.dtype)?;
    // SAFETY: the caller's promise.
    let layout = unsafe { layout_from(elements) }?;
    let beyond = || wrong("it reaches further than memory can address");
    let bytes = layout
        .extent()
        .checked_mul(dtype.size())
        .ok_or_else(beyond)?;
    let offset = usize::try_from(elements.byte_offset).map_err(|_| beyond())?;
    let address = elements
        .data
        .addr()
        .checked_add(offset)
        .ok_or_else(beyond)?;
    if bytes > isize::MAX as usize || address.checked_add(bytes).is_none() {
        return Err(beyond());
    }
    if bytes > 0 && elements.data.is_null() {
        return Err(wrong("data is NULL, and there are elements"));
    }
    let size = dtype.size();
    let on_device = !device.is_host_memory();
    if bytes > 0 && !address.is_multiple_of(size) {
        return Err(wrong(&format!(
            "the address is not a multiple of {size}, the size of {dtype}"
        )));
    }
    let owner = ExportOwner { managed, on_device };
    let read_only = form.flags().contains(DlpackFlags::READ_ONLY);
    let data = if bytes > 0 {
        elements.data.wrapping_byte_add(offset).cast()
    } else {
        ptr::null_mut()
    };
    // SAFETY: the caller guarantees the elements until the deleter is called, which the owner does
    // when it is dropped. Memory without elements needs no guarantee.
    let storage = unsafe { Storage::foreign(data, bytes, device, read_only, Box::new(owner)) };
    Tensor::from_storage(Arc::new(storage), dtype, layout, 0)
}

/// Refuses a version of which only the deleter is known.
fn check_version(version: DLPackVersion) -> Result<()> {
    let DLPackVersion { major, minor } = version;
    if major == VERSION.major {
        return Ok(());
    }
    Err(Error::Unimplemented(format!(
        "managed: a tensor of version {major}.{minor} of DLPack; this library knows version {}",
        VERSION.major
    )))
}

/// # Safety
/// `elements` points to as many sizes as its rank, and to as many strides, if it has any.
unsafe fn layout_from(elements: &DLTensor) -> Result<Layout> {
    let rank = usize::try_from(elements.ndim)
        .ok()
        .filter(|&rank| rank <= MAX_RANK);
    let rank = rank.ok_or_else(|| {
        wrong(&format!(
            "{} dimensions; it has 0 to {MAX_RANK}",
            elements.ndim
        ))
    })?;
    let numbers = |from: *mut i64| {
        let mut numbers = [0; MAX_RANK];
        if rank > 0 {
            // SAFETY: the pointer is not null, as checked in this function, and the caller
            // guarantees `rank` numbers. They need not be aligned.
            numbers[..rank]
                .iter_mut()
                .enumerate()
                .for_each(|(axis, number)| unsafe {
                    *number = from.add(axis).read_unaligned();
                });
        }
        numbers
    };
    if rank > 0 && elements.shape.is_null() {
        return Err(wrong("shape is NULL"));
    }
    let mut sizes = [0usize; MAX_RANK];
    for (axis, (to, &size)) in sizes
        .iter_mut()
        .zip(&numbers(elements.shape)[..rank])
        .enumerate()
    {
        *to = usize::try_from(size)
            .map_err(|_| wrong(&format!("dimension {axis} is {size}; sizes are 0 or more")))?;
    }
    let shape = Shape::new(&sizes[..rank]).map_err(|error| error.within("managed"))?;
    let row_major = Layout::row_major(shape);
    if elements.strides.is_null() {
        return Ok(row_major);
    }
    let mut strides = [0isize; MAX_RANK];
    for (axis, &stride) in numbers(elements.strides)[..rank].iter().enumerate() {
        // If an axis has no neighbours, producers may pass any stride.
        strides[axis] = match shape.elements() == 0 || sizes[axis] == 1 {
            true => row_major.strides()[axis],
            false => stride as isize,
        };
        if strides[axis] < 0 {
            return Err(Error::Unimplemented(format!(
                "managed: dimension {axis} goes backwards, by {stride} elements; give a copy"
            )));
        }
    }
    Layout::strided(shape, &strides[..rank]).map_err(|error| error.within("managed"))
}

fn wrong(problem: &str) -> Error {
    Error::invalid("managed", problem)
}

/// The device of a producer's memory.
fn device_from(device: DLDevice) -> Result<DeviceId> {
    match device.device_type {
        DLDeviceType::CPU | DLDeviceType::CUDAHOST => Ok(DeviceId::HOST),
        DLDeviceType(device_type) => {
            let number = u32::try_from(device.device_id)
                .map_err(|_| wrong(&format!("device number {}", device.device_id)))?;
            let found = registry::device_of_dlpack(device_type, number)
                .map_err(|error| error.within("managed"))?;
            found.ok_or_else(|| unknown_type(device_type))
        }
    }
}

fn unknown_type(device_type: u32) -> Error {
    Error::Unimplemented(format!(
        "managed: memory of device type {device_type} of DLPack; memory of the CPU (types {} and \
         {}) and of CUDA's GPUs ({}) is taken",
        DLDeviceType::CPU.0,
        DLDeviceType::CUDAHOST.0,
        DLDeviceType::CUDA.0
    ))
}

/// The device of a tensor, for another library. All work that was queued on it is done when this
/// returns.
fn device_to(device: DeviceId) -> Result<DLDevice> {
    if device.is_host_memory() {
        // All CPUs have the same memory.
        return Ok(DLDevice {
            device_type: DLDeviceType::CPU,
            device_id: 0,
        });
    }
    let backend = registry::backend(device)?;
    let device_type = device.kind.dlpack_type().ok_or_else(|| {
        Error::Unimplemented(format!(
            "tensor: DLPack has no type for the memory of {device}"
        ))
    })?;
    backend.synchronize()?;
    Ok(DLDevice {
        device_type: DLDeviceType(device_type),
        device_id: backend.physical_ordinal() as i32,
    })
}

fn data_type_of(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => DLDataTypeCode::INT,
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => DLDataTypeCode::UINT,
        DType::Float16 | DType::Float32 | DType::Float64 => DLDataTypeCode::FLOAT,
        DType::BFloat16 => DLDataTypeCode::BFLOAT,
        DType::Bool => DLDataTypeCode::BOOL,
    };
    DLDataType {
        code,
        bits: dtype.size() as u8 * 8,
        lanes: 1,
    }
}

fn dtype_from(data_type: DLDataType) -> Result<DType> {
    let found = DType::ALL
        .into_iter()
        .find(|&dtype| data_type_of(dtype) == data_type);
    found.ok_or_else(|| {
        let DLDataType { code, bits, lanes } = data_type;
        Error::Unimplemented(format!(
            "managed: elements of type code {} of DLPack with {bits} bits and {lanes} lanes; \
             integers and floats of the usual widths, bfloat16 and bool are taken",
            code.0
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_elements_go_both_ways() {
        for dtype in DType::ALL {
            assert_eq!(dtype_from(data_type_of(dtype)).unwrap(), dtype);
        }
        for (code, bits, lanes) in [(2, 32, 2), (2, 8, 1), (5, 64, 1), (6, 1, 1), (0, 0, 0)] {
            let code = DLDataTypeCode(code);
            assert!(dtype_from(DLDataType { code, bits, lanes }).is_err());
        }
    }

    fn there_and_back<F: ManagedForm>(tensor: &Tensor) -> Tensor {
        let managed = export::<F>(tensor).unwrap();
        // SAFETY: it was just exported.
        unsafe { import(managed) }.unwrap()
    }

    #[test]
    fn elements_stay_where_they_are_as_long_as_somebody_has_them() {
        let shape = Shape::new(&[3, 4]).unwrap();
        let data: Vec<i32> = (0..12).collect();
        let tensor = Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap();
        let part = tensor
            .transpose(&[1, 0])
            .unwrap()
            .slice(0, 1, 3, 1)
            .unwrap();
        let one = there_and_back::<DLManagedTensorVersioned>(&part);
        let other = there_and_back::<DLManagedTensor>(&part);
        assert_eq!(
            (one.address(), other.address()),
            (part.address(), part.address())
        );
        assert_eq!(one.layout(), part.layout());
        let expected = part.to_vec::<i32>().unwrap();
        drop((tensor, part));
        assert_eq!(one.to_vec::<i32>().unwrap(), expected);
        drop(one);
        assert_eq!(other.to_vec::<i32>().unwrap(), expected);
        for shape in [&[][..], &[0], &[2, 0, 3]] {
            let shape = Shape::new(shape).unwrap();
            let tensor = Tensor::zeros(DType::Bool, shape, DeviceId::HOST).unwrap();
            assert_eq!(
                there_and_back::<DLManagedTensorVersioned>(&tensor).shape(),
                shape
            );
        }
    }

    #[test]
    fn refused_tensors_are_not_released() {
        unsafe extern "C" fn refuse(_managed: *mut DLManagedTensor) {
            panic!("it was refused");
        }
        let tensor = Tensor::scalar(1.0f32).unwrap();
        let mut managed = export::<DLManagedTensor>(&tensor).unwrap();
        // SAFETY: it was just exported. It gets its own deleter back before that is called.
        unsafe {
            let deleter = managed.as_mut().deleter.replace(refuse);
            managed.as_mut().dl_tensor.device.device_type = DLDeviceType::OPENCL;
            assert!(import(managed).is_err());
            managed.as_mut().deleter = deleter;
            managed.as_ref().deleter.unwrap()(managed.as_ptr());
        }
    }
}
