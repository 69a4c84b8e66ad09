//! A kind of devices that the library does not have: memory of the host behind another name, with
//! the kernels compiled as C++. Tensors, reductions and training work on it, with the bits of CPUs,
//! and nothing of the library knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::Mutex;
use umbo_core::collectives::reduce;
use umbo_core::device::backend::{
    Address, Backend, Entered, KernelImages, Launch, copy_through_host,
};
use umbo_core::device::cpu::{Cpu, memory};
use umbo_core::device::kinds::{self, AddedKind};
use umbo_core::device::{DeviceId, DeviceKind, MemoryInfo, registry};
use umbo_core::error::{Error, Result, Status};
use umbo_core::kernels::launch::THREADS;
use umbo_core::kernels::reduce::reduction::ReduceOp;
use umbo_core::optimizer::rules::catalogue;
use umbo_core::optimizer::{
    ApplyOptions, GradientMode, Gradients, LossReduction, Optimizer, apply_with,
};
use umbo_core::strategy::variables::{self, Initial, read};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::dlpack::ffi::{DLDeviceType, DLManagedTensorVersioned};
use umbo_core::tensor::{DType, Shape, Tensor, dlpack};
use umbo_core::values::variable::{Aggregation, Variable};

use crate::fresh::new_variable;
use crate::machine::launch_as_cpp;

const DEVICES: u32 = 4;

/// One device: an account of the host's memory that it has lent out.
#[derive(Debug)]
struct Lender {
    id: DeviceId,
    allocated: Mutex<BTreeMap<Address, usize>>,
    launched: Mutex<BTreeSet<String>>,
    lost: OnceLock<String>,
}

impl Lender {
    /// Fails the test unless the range lies in one allocation.
    fn check_range(&self, start: Address, bytes: usize) {
        let allocated = self.allocated.lock();
        let (first, length) = allocated.range(..=start).next_back().expect("an address");
        assert!(start + bytes as u64 <= first + *length as u64, "a range");
    }
}

impl Backend for Lender {
    fn id(&self) -> DeviceId {
        self.id
    }

    fn physical_ordinal(&self) -> u32 {
        self.id.index
    }

    fn model(&self) -> &str {
        "memory of the host"
    }

    fn allocate(&self, bytes: usize) -> Result<Address> {
        self.check()?;
        let address = Cpu.allocate(bytes)?;
        self.allocated.lock().insert(address, bytes);
        Ok(address)
    }

    unsafe fn free(&self, address: Address, bytes: usize) {
        assert_eq!(self.allocated.lock().remove(&address), Some(bytes));
        // SAFETY: the caller's promise.
        unsafe { Cpu.free(address, bytes) };
    }

    unsafe fn upload(&self, from: *const u8, to: Address, bytes: usize) -> Result<()> {
        self.check_range(to, bytes);
        // SAFETY: the caller's promise.
        unsafe { Cpu.upload(from, to, bytes) }
    }

    unsafe fn download(&self, from: Address, to: *mut u8, bytes: usize) -> Result<()> {
        self.check_range(from, bytes);
        // SAFETY: the caller's promise.
        unsafe { Cpu.download(from, to, bytes) }
    }

    unsafe fn copy(&self, from: Address, to: Address, bytes: usize) -> Result<()> {
        self.check_range(from, bytes);
        self.check_range(to, bytes);
        // SAFETY: the caller's promise.
        unsafe { Cpu.copy(from, to, bytes) }
    }

    unsafe fn copy_from(
        &self,
        other: &dyn Backend,
        from: Address,
        to: Address,
        bytes: usize,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { copy_through_host(self, other, from, to, bytes) }
    }

    unsafe fn fill_zeros(&self, to: Address, bytes: usize) -> Result<()> {
        self.check_range(to, bytes);
        // SAFETY: the caller's promise.
        unsafe { Cpu.fill_zeros(to, bytes) }
    }

    fn synchronize(&self) -> Result<()> {
        self.check()
    }

    fn load_kernels(&self, _: &KernelImages) -> Result<()> {
        self.check()
    }

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        self.check()?;
        assert_eq!(launch.threads, THREADS);
        self.launched.lock().insert(launch.kernel.to_owned());
        // SAFETY: the caller's promise.
        unsafe { launch_as_cpp(launch.kernel, launch.blocks, launch.arguments) };
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match self.lost.get() {
            Some(why) => Err(Error::Unavailable(format!("{} is lost: {why}", self.id))),
            None => Ok(()),
        }
    }

    fn give_up(&self, why: &str) {
        let _ = self.lost.set(why.to_owned());
    }

    fn enter(&self) -> Result<Entered> {
        self.check().map(|()| Entered::unchanged())
    }

    fn queue_handle(&self) -> *mut c_void {
        std::ptr::null_mut()
    }
}

static OPENED: Mutex<BTreeMap<u32, &'static Lender>> = Mutex::new(BTreeMap::new());

struct Test;

impl AddedKind for Test {
    fn name(&self) -> &'static str {
        "TEST"
    }

    fn count(&self) -> u32 {
        DEVICES
    }

    fn open(&self, device: DeviceId) -> Result<&'static dyn Backend> {
        let lender: &'static Lender = Box::leak(Box::new(Lender {
            id: device,
            allocated: Mutex::default(),
            launched: Mutex::default(),
            lost: OnceLock::new(),
        }));
        assert!(OPENED.lock().insert(device.index, lender).is_none());
        Ok(lender)
    }

    fn memory_info(&self, _: DeviceId) -> Result<MemoryInfo> {
        memory::memory_info()
    }

    fn dlpack_type(&self) -> Option<u32> {
        Some(DLDeviceType::EXTDEV.0)
    }
}

/// The device with this number. The kind is added at the first call.
fn device(index: u32) -> DeviceId {
    static KIND: LazyLock<DeviceKind> = LazyLock::new(|| kinds::add(&Test).unwrap());
    DeviceId { kind: *KIND, index }
}

fn lender(index: u32) -> &'static Lender {
    registry::backend(device(index)).unwrap();
    OPENED.lock()[&index]
}

fn tensor(values: &[f32], device: DeviceId) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), device).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

#[test]
fn devices_of_an_added_kind_have_names() {
    let kind = device(0).kind;
    let registry = &registry::REGISTRY;
    for name in [
        "TEST:1",
        "test:1",
        "/job:localhost/replica:0/task:0/device:TEST:1",
    ] {
        assert_eq!(registry.resolve(name, "device").unwrap(), device(1));
    }
    assert_eq!(device(1).to_string(), "TEST:1");
    assert_eq!(registry.logical_count(kind), DEVICES);
    let absent = registry.resolve("TEST:4", "device").unwrap_err();
    assert_eq!(absent.status(), Status::NotFound);
    assert!(absent.to_string().contains("TEST:0 to TEST:3"), "{absent}");
    let split = registry.set_logical_count(kind, 0, 2).unwrap_err();
    assert_eq!(split.status(), Status::Unimplemented);
    let stream = registry::set_stream(device(0), Some(64)).unwrap_err();
    assert_eq!(stream.status(), Status::InvalidArgument);
    assert!(registry::memory_info(device(0)).unwrap().total_bytes > 0);
    let again = kinds::add(&Test).unwrap_err();
    assert!(again.to_string().contains("'TEST'"), "{again}");
}

#[test]
fn tensors_are_copied_and_computed_with() {
    let values: Vec<f32> = (0..5000u16).map(|number| f32::from(number) / 7.0).collect();
    let source = tensor(&values, device(0));
    assert!(!source.device().is_host_memory());
    let copy = source.copied_to(device(1)).unwrap();
    assert_eq!(numbers(&copy), values);
    // SAFETY: nobody else has the copy.
    let mut written = unsafe { copy.assume_exclusive() };
    written.combine_from(&source, false).unwrap();
    let doubled: Vec<f32> = values.iter().map(|value| value + value).collect();
    assert_eq!(numbers(&copy), doubled);
    // SAFETY: as above.
    unsafe { copy.assume_exclusive() }.fill(0.5).unwrap();
    assert_eq!(numbers(&copy), [0.5; 5000]);
    let launched = lender(1).launched.lock().clone();
    assert!(launched.contains("umbo_combine_f32"), "{launched:?}");
}

#[test]
fn tensors_go_to_other_libraries_and_back() {
    let source = tensor(&[1.0, 2.0, 3.0], device(2));
    let export = || dlpack::export::<DLManagedTensorVersioned>(&source).unwrap();
    let managed = export();
    // SAFETY: it was just exported.
    let exported = unsafe { managed.as_ref() }.dl_tensor.device;
    let expected = (DLDeviceType::EXTDEV, 2);
    assert_eq!((exported.device_type, exported.device_id), expected);
    // SAFETY: as above; it is imported once.
    let back = unsafe { dlpack::import(managed) }.unwrap();
    assert_eq!(back.device(), device(2));
    assert_eq!(back.address(), source.address());
    assert_eq!(numbers(&back), [1.0, 2.0, 3.0]);

    let mut absent = export();
    // SAFETY: it was just exported.
    unsafe { absent.as_mut() }.dl_tensor.device.device_id = DEVICES as i32;
    // SAFETY: as above.
    let error = unsafe { dlpack::import(absent) }.unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    assert!(error.to_string().contains("TEST 4; there are 4"), "{error}");
    // SAFETY: the import has failed, so that the tensor is still this test's.
    unsafe { absent.as_mut() }.dl_tensor.device.device_id = 2;
    // SAFETY: as above; it is imported once.
    drop(unsafe { dlpack::import(absent) }.unwrap());
}

#[test]
fn reductions_have_the_bits_of_the_host() {
    let components = |device: fn(u32) -> DeviceId| -> Vec<Tensor> {
        let values = |replica: u32| (0..777u32).map(move |at| ((at * 7 + replica) as f32).sin());
        (0..3)
            .map(|replica| tensor(&values(replica).collect::<Vec<_>>(), device(replica)))
            .collect()
    };
    for op in ReduceOp::ALL {
        let reduced = reduce(op, &components(device), None, device(0), None).unwrap();
        assert_eq!(reduced.device(), device(0));
        let host = components(|_| DeviceId::HOST);
        let expected = reduce(op, &host, None, DeviceId::HOST, None).unwrap();
        assert_eq!(numbers(&reduced), numbers(&expected));
    }
    let launched = lender(0).launched.lock().clone();
    for kernel in [
        "umbo_sum_f32",
        "umbo_mean_f32",
        "umbo_min_f32",
        "umbo_max_f32",
    ] {
        assert!(launched.contains(kernel), "{launched:?}");
    }
}

/// A training of one variable on two replicas.
struct Training {
    strategy: Strategy,
    variable: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

impl Training {
    fn new(rule: &str, devices: [&str; 2], parameter_device: &str) -> Training {
        let strategy = Strategy::new(&Options {
            compute_devices: Some(devices.map(str::to_owned).into()),
            parameter_device: Some(parameter_device.to_owned()),
            ..Options::default()
        })
        .unwrap();
        let start: Vec<f32> = (0..3001u16).map(|at| f32::from(at).cos()).collect();
        let new = new_variable("weights", Aggregation::None);
        let start = Initial::Value(&tensor(&start, DeviceId::HOST));
        let variable = variables::create(Some(&strategy), new, start).unwrap();
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            vec![variable.clone()],
            LossReduction::Mean,
            Default::default(),
        )
        .unwrap();
        let optimizer = Optimizer::new(strategy.id(), catalogue::make(rule).unwrap(), 0.1).unwrap();
        Training {
            strategy,
            variable,
            gradients,
            optimizer,
        }
    }

    fn contribute(&self, context: &ReplicaContext, step: usize) -> Result<()> {
        let buffer = self
            .gradients
            .view_in(context, 0, GradientMode::Overwrite)?;
        assert_eq!(buffer.device(), context.device());
        let phase = (step * 2 + context.replica()) as f32;
        let values: Vec<f32> = (0..3001u16)
            .map(|at| (f32::from(at) + phase).sin())
            .collect();
        let values = Tensor::from_slice(&values, buffer.shape(), context.device())?;
        // SAFETY: the buffer is this replica's.
        unsafe { buffer.assume_exclusive() }.copy_from(&values)?;
        self.gradients.submit_in(context, Some(1.0))
    }

    fn step(&self, step: usize) -> Result<()> {
        self.strategy.run(
            &|context| self.contribute(context, step).map(|()| None),
            None,
        )?;
        apply_with(&self.optimizer, &self.gradients, ApplyOptions::default()).map(drop)
    }

    /// The bits of the variable and its state after three steps.
    fn trained(&self) -> Vec<u32> {
        (0..3).for_each(|step| self.step(step).unwrap());
        let slots = self.optimizer.slots();
        let states = slots
            .iter()
            .map(|slot| self.optimizer.state(&self.variable, &slot.name).unwrap());
        let weights = read(&self.variable).unwrap();
        std::iter::once(weights)
            .chain(states)
            .flat_map(|tensor| numbers(&tensor))
            .map(f32::to_bits)
            .collect()
    }
}

#[test]
fn training_has_the_bits_of_cpus() {
    assert_eq!(device(0).kind.name(), "TEST");
    registry::REGISTRY.ensure_logical_cpus(2).unwrap();
    for rule in ["sgd", "adam", "lamb"] {
        let expected = Training::new(rule, ["CPU:0", "CPU:1"], "CPU:0");
        let expected = expected.trained();
        for parameter_device in ["TEST:0", "CPU:0"] {
            let training = Training::new(rule, ["TEST:0", "TEST:1"], parameter_device);
            assert!(
                training.trained() == expected,
                "{rule} on {parameter_device}"
            );
        }
        let launched = lender(0).launched.lock().clone();
        assert!(
            launched.contains(&format!("umbo_{rule}_f32")),
            "{launched:?}"
        );
    }
}

#[test]
fn a_lost_device_fails_the_step_and_no_other() {
    assert_eq!(device(3).to_string(), "TEST:3");
    let training = Training::new("sgd", ["CPU:0", "TEST:3"], "CPU:0");
    training.step(0).unwrap();
    let before = numbers(&read(&training.variable).unwrap());
    lender(3).give_up("its lender wants it back");
    let error = training.step(1).unwrap_err();
    assert_eq!(error.status(), Status::Unavailable);
    assert!(error.to_string().contains("TEST:3 is lost"), "{error}");
    assert_eq!(numbers(&read(&training.variable).unwrap()), before);
    let fresh = Tensor::zeros(DType::Float32, Shape::new(&[4]).unwrap(), device(3));
    assert_eq!(fresh.unwrap_err().status(), Status::Unavailable);
}
