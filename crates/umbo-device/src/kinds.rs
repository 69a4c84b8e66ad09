//! The kinds of devices that a program adds to the library's own.
//!
//! A kind says which devices there are and opens them. What the library does with an opened one is
//! in its [`Backend`]. Strategies, tensors and optimizers take such devices by their names, as all
//! others.

use std::collections::BTreeMap;

use crate::backend::Backend;
use crate::{DeviceId, DeviceKind, MemoryInfo};
use parking_lot::Mutex;
use umbo_base::error::{Error, Result};

/// A kind of devices of a program.
pub trait AddedKind: Send + Sync {
    /// The kind in the names of devices: upper-case letters, such as `NPU`.
    fn name(&self) -> &'static str;

    /// The number of devices. The number does not change.
    fn count(&self) -> u32;

    /// Opens a device that exists. It is called once for each, unless it fails. Meanwhile no other
    /// device of an added kind is opened, so it must not use one.
    fn open(&self, device: DeviceId) -> Result<&'static dyn Backend>;

    /// The memory of a device that exists.
    fn memory_info(&self, device: DeviceId) -> Result<MemoryInfo>;

    /// The number of the kind among the device types of DLPack; `None` if it has none. The number
    /// of a device is that of its index here.
    fn dlpack_type(&self) -> Option<u32> {
        None
    }
}

/// The number of an added kind, in the order in which kinds were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindNumber(u8);

impl KindNumber {
    /// The position of the kind among the added ones.
    pub(crate) fn position(self) -> usize {
        self.0.into()
    }
}

/// The words of device names that no kind can have.
const RESERVED: [&str; 7] = ["CPU", "GPU", "CUDA", "DEVICE", "JOB", "REPLICA", "TASK"];

static ADDED: Mutex<Vec<&'static dyn AddedKind>> = Mutex::new(Vec::new());

static OPEN: Mutex<BTreeMap<DeviceId, &'static dyn Backend>> = Mutex::new(BTreeMap::new());

/// Adds a kind of devices to this process, for as long as it runs.
///
/// Fails with INVALID_ARGUMENT if its name is not one of upper-case letters, is reserved or taken,
/// with RESOURCE_EXHAUSTED if there are 256 such kinds, and with UNIMPLEMENTED in a library without
/// the feature `cuda`, which has the loops of processors alone.
pub fn add(kind: &'static dyn AddedKind) -> Result<DeviceKind> {
    built_with!("cuda", "devices besides the processors");
    let name = kind.name();
    let mut added = ADDED.lock();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(invalid!(
            "kind",
            "'{name}'; the name of a kind of devices is of the letters A to Z"
        ));
    }
    if RESERVED.contains(&name) || added.iter().any(|other| other.name() == name) {
        return Err(invalid!(
            "kind",
            "'{name}' has a meaning in device names already"
        ));
    }
    let number = u8::try_from(added.len())
        .map_err(|_| Error::beyond_limit("more kinds of devices than 256"))?;
    added.push(kind);
    Ok(DeviceKind::Added(KindNumber(number)))
}

/// The added kind of this name, in letters of either case.
pub(crate) fn named(name: &str) -> Option<DeviceKind> {
    let added = ADDED.lock();
    let position = added
        .iter()
        .position(|kind| kind.name().eq_ignore_ascii_case(name))?;
    Some(DeviceKind::Added(KindNumber(position as u8)))
}

/// All added kinds, in their order.
pub(crate) fn all() -> impl Iterator<Item = DeviceKind> {
    let count = ADDED.lock().len();
    (0..count).map(|number| DeviceKind::Added(KindNumber(number as u8)))
}

/// The added kind with this number.
pub(crate) fn added(number: KindNumber) -> &'static dyn AddedKind {
    ADDED.lock()[number.position()]
}

/// The opened device, which exists. It is opened if it was not.
pub(crate) fn open(number: KindNumber, device: DeviceId) -> Result<&'static dyn Backend> {
    // Devices of all added kinds are opened one after the other, so that each is opened once.
    let mut open = OPEN.lock();
    if let Some(&backend) = open.get(&device) {
        backend.check()?;
        return Ok(backend);
    }
    let backend = added(number).open(device)?;
    open.insert(device, backend);
    Ok(backend)
}

/// The devices of added kinds that were opened.
pub(crate) fn opened() -> Vec<&'static dyn Backend> {
    OPEN.lock().values().copied().collect()
}
