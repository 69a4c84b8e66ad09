//! An NCCL for tests. As `libnccl.so.2` it joins ranks that are threads of one process, and moves
//! memory between their devices by the functions of the CUDA driver that the process has loaded,
//! the tests' own one:
//!
//! * Communicators whose calls do not wait are known, and no others. What a group has begun
//!   continues whenever its communicator's state is asked for, and a rank's part is done once its
//!   peers have theirs.
//! * Bytes are copied on the streams that the program names, in the order that NCCL promises and no
//!   other, so that the driver finds what is not ordered.
//! * What NCCL leaves undefined, such as sizes on two ranks that disagree or a communicator that is
//!   used after its end, is noted as a mistake of the program's.
//! * Any call can be made to fail; see [`Control::fault`].
//!
//! It shows nothing of what NCCL does on GPUs.

mod api;
mod comm;
mod control;
mod cuda;
#[path = "../../fake_cuda/src/faults.rs"]
mod faults;
mod group;
mod nccl;

pub use control::{Control, library};
