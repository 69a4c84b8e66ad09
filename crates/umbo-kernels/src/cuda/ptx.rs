//! The compiled kernels.

use std::io::Read;
use std::sync::LazyLock;

use lzma_rust2::LzmaReader;

/// The kernels, as PTX that drivers since CUDA 9 compile for GPUs since Volta. It is unpacked at
/// its first use.
pub static PTX: LazyLock<String> = LazyLock::new(|| {
    let packed: &[u8] = include_bytes!("umbo.ptx.lzma");
    let mut ptx = String::new();
    let read = LzmaReader::new_mem_limit(packed, u32::MAX, None)
        .and_then(|mut reader| reader.read_to_string(&mut ptx));
    read.expect("scripts/build_ptx.sh packed it");
    ptx
});
