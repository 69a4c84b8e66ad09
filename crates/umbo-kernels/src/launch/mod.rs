//! Launches of the kernels on devices whose memory the host cannot address.
//!
//! A launcher checks its arguments, makes the tables of operands that say where everything lies,
//! and queues kernels at a [`KernelQueue`]. It knows the kernels by their names; the form in which
//! a device gets them is the matter of its [`Backend`](umbo_device::backend::Backend).

mod copy;
mod entries;
mod factored;
mod launcher;
mod on_device;
mod operands;
mod place;
mod replicas;
mod row_copies;
mod update;

pub use factored::{DeviceFactoredUpdate, DeviceMoments};
pub use launcher::{KernelLauncher, KernelQueue, THREADS};
pub use on_device::{IMAGES, PreparedLaunches, on_device, prepared_on_device};
pub use operands::{DeviceContribution, DeviceUpdate, Gradient, TableRows};
pub use place::DevicePlace;
pub use replicas::DeviceReduction;
pub use row_copies::RowCopy;
pub use umbo_device::backend::Address;
