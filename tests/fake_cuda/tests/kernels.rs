//! Kernels compiled by clang give what the same lines give on the host, and mistakes in kernels
//! are found.

mod programs;

use cudarc::driver::{result, sys};
use fake_cuda::harness::under_driver;
use programs::Parameter::{At, Single, Word};
use programs::*;

const SAMPLES: &str = include_str!("kernels/samples.ptx");
const NONE: [&str; 0] = [];

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 1009) as f32 * 0.37 - 180.0).collect()
}

#[test]
fn elementwise_and_sums_are_exact() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let module = Module::new(SAMPLES);
    for (seed, count) in [0usize, 1, 255, 256, 1000, 1024, 5000, 100_003].into_iter().enumerate() {
        control.seed(seed as u64);
        let stream = stream();
        let (x, y) = (values(count), values(count + 1));
        let (gx, gy) = (allocate(4 * count.max(1)), allocate(4 * (count + 1)));
        upload(gx, &x, stream).unwrap();
        upload(gy, &y, stream).unwrap();
        let parameters = [At(gx), At(gy), Single(1.37), Word(count as u32)];
        launch(module.function("axpy"), (7, 96), stream, &parameters).unwrap();
        let got: Vec<f32> = download(gy, count + 1, stream).unwrap();
        for i in 0..count {
            assert_eq!(got[i].to_bits(), (y[i] + 1.37 * x[i]).to_bits(), "{i}");
        }
        assert_eq!(got[count], y[count]);
        let blocks = count.div_ceil(1024).max(1);
        let sums = allocate(8 * blocks);
        let parameters = [At(gx), At(sums), Word(count as u32)];
        launch(module.function("sum"), (blocks as u32, 256), stream, &parameters).unwrap();
        let got: Vec<f64> = download(sums, blocks, stream).unwrap();
        for (block, got) in got.iter().enumerate() {
            let part = |i: usize| x.get(block * 1024 + i).map_or(0.0, |x| f64::from(*x));
            let mut tile: Vec<f64> =
                (0..256).map(|t| (0..4).fold(0.0, |s, k| s + part(k * 256 + t))).collect();
            let mut width = 128;
            while width > 0 {
                for t in 0..width {
                    tile[t] += tile[t + width];
                }
                width /= 2;
            }
            assert_eq!(got.to_bits(), tile[0].to_bits(), "{block}");
        }
        clean(&[gx, gy, sums], &[stream], &[]);
    }
    assert_eq!(control.take_reports(), NONE);
    assert_eq!(control.executed("fma"), 0);
    assert_eq!(control.never_executed("axpy"), NONE);
    module.unload();
    assert_eq!((control.live("memory"), control.live("modules")), (0, 0));
}

#[test]
fn accesses_are_counted_in_a_file() {
    let file = std::env::temp_dir().join(format!("fake-cuda-accesses-{}", std::process::id()));
    if std::env::var_os("FAKE_CUDA_INSIDE").is_none() {
        // What was counted before is added to.
        std::fs::write(&file, 5u64.to_ne_bytes()).unwrap();
    }
    let settings = [("FAKE_CUDA_ACCESSES", file.to_str().unwrap())];
    let Some(control) = under_driver(&settings) else {
        // For each of 1000 elements two are read and one is written.
        let counted = std::fs::read(&file).unwrap();
        assert_eq!(u64::from_ne_bytes(counted.try_into().unwrap()), 5 + 3000);
        return std::fs::remove_file(&file).unwrap();
    };
    device(0);
    let (module, stream) = (Module::new(SAMPLES), stream());
    let [x, y] = [allocate(4000), allocate(4000)];
    upload(x, &values(1000), stream).unwrap();
    upload(y, &values(1000), stream).unwrap();
    let parameters = [At(x), At(y), Single(2.0), Word(1000)];
    launch(module.function("axpy"), (3, 64), stream, &parameters).unwrap();
    clean(&[x, y], &[stream], &[]);
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn atomics_shuffles_calls_and_tables_work() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let module = Module::new(SAMPLES);
    for seed in 0..10 {
        control.seed(seed);
        let stream = stream();
        let words: Vec<u32> = (0..3000u32).map(|i| i.wrapping_mul(2654435761) >> 7).collect();
        let (x, totals) = (allocate(4 * 3000), allocate(64));
        upload(x, &words, stream).unwrap();
        fill(totals, 0, 64, stream).unwrap();
        let parameters = [At(x), At(totals), Word(3000)];
        launch(module.function("histogram"), (5, 64), stream, &parameters).unwrap();
        let mut expected = [0u32; 16];
        words.iter().for_each(|word| expected[(word & 15) as usize] += 1);
        assert_eq!(download::<u32>(totals, 16, stream).unwrap(), expected);

        let x = values(256);
        let (gx, out) = (allocate(1024), allocate(4));
        upload(gx, &x, stream).unwrap();
        launch(module.function("warp_sum"), (1, 256), stream, &[At(gx), At(out)]).unwrap();
        let mut lanes = x.clone();
        for width in [16, 8, 4, 2, 1] {
            let old = lanes.clone();
            (0..256).for_each(|i| lanes[i] = old[i] + old[i ^ width]);
        }
        let sum = (0..8).fold(0.0, |all, warp| all + lanes[warp * 32]);
        assert_eq!(download::<f32>(out, 1, stream).unwrap()[0].to_bits(), sum.to_bits());
        clean(&[totals, gx, out], &[stream], &[]);
    }
    let count = 777;
    let bytes: Vec<i8> = (0..count).map(|i| (i * 31) as u8 as i8).collect();
    let stream = stream();
    let (from, halves) = (allocate(count), allocate(2 * count));
    let (words, wide) = (allocate(4 * count), allocate(8 * count));
    upload(from, &bytes, stream).unwrap();
    let parameters = [At(from), At(halves), At(words), At(wide), Word(count as u32)];
    launch(module.function("assorted"), (4, 256), stream, &parameters).unwrap();
    let halves: Vec<u16> = download(halves, count, stream).unwrap();
    let words: Vec<i32> = download(words, count, stream).unwrap();
    let wide: Vec<u64> = download(wide, count, stream).unwrap();
    let table = [3, -1, 4, 1, -5, 9, 2, 6];
    for i in 0..count {
        let b = i32::from(bytes[i]);
        let mut local = table.map(|t| t * i as i32);
        local[((b + 128) & 7) as usize] = b;
        let word = local[(b & 7) as usize] * 3 / 7 + local[i & 7] % 5 + 7;
        assert_eq!(words[i], word, "{i}");
        assert_eq!(halves[i], (b * b) as u16);
        let big = u64::from(b as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i & 31);
        assert_eq!(wide[i], big | u64::from(i.count_ones()));
    }
    assert_eq!(control.take_reports(), NONE);
}

/// The reports of one launch of a kernel, and what the stream then says.
fn launched(
    text: &str,
    name: &str,
    shape: (u32, u32),
    parameters: &[Parameter],
) -> Result<(), u32> {
    let module = Module::new(text);
    let stream = stream();
    let launched = launch(module.function(name), shape, stream, parameters);
    launched.and_then(|()| synchronize(stream)).map_err(|error| error.0 as u32)
}

#[test]
fn races_within_a_launch_are_found() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let (x, out) = (allocate(1024), allocate(1024));
    fill(x, 0, 1024, DEFAULT_STREAM).unwrap();
    fill(out, 0, 1024, DEFAULT_STREAM).unwrap();
    result::ctx::synchronize().unwrap();
    let mut counts = [0; 2];
    for seed in 0..50 {
        control.seed(seed);
        launched(SAMPLES, "no_barrier", (1, 256), &[At(x), At(out)]).unwrap();
        let reports = control.take_reports();
        counts[0] += usize::from(reports.iter().any(|r| r.starts_with("race in shared memory")));
        launched(SAMPLES, "one_place", (2, 32), &[At(out)]).unwrap();
        let reports = control.take_reports();
        counts[1] += usize::from(reports.iter().any(|r| r.starts_with("race in a launch")));
    }
    println!(
        "found: a missing barrier {} of 50, one place for all threads {} of 50",
        counts[0], counts[1]
    );
    assert_eq!(counts, [50, 50]);
}

#[test]
fn an_access_outside_of_memory_breaks_the_context() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let (x, y) = (allocate(400), allocate(400));
    fill(x, 0, 400, DEFAULT_STREAM).unwrap();
    fill(y, 0, 400, DEFAULT_STREAM).unwrap();
    result::ctx::synchronize().unwrap();
    let parameters = [At(x), At(y), Single(1.0), Word(101)];
    assert_eq!(launched(SAMPLES, "axpy", (1, 32), &parameters), Err(700));
    let reports = control.take_reports();
    assert!(reports.len() == 1 && reports[0].starts_with("out of bounds"), "{reports:?}");
    assert!(reports[0].contains("end 4 bytes past the end"), "{reports:?}");
    // The context is of no more use.
    assert_eq!(result::mem_get_info().unwrap_err().0 as u32, 700);
    assert!(free(x).is_err());
}

#[test]
fn misaligned_and_unwritten_bytes_are_found() {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else { return };
    device(0);
    let (x, y) = (allocate(401), allocate(400));
    fill(y, 0, 400, DEFAULT_STREAM).unwrap();
    fill(x, 0, 80, DEFAULT_STREAM).unwrap();
    result::ctx::synchronize().unwrap();
    let parameters = [At(x), At(y), Single(1.0), Word(21)];
    launched(SAMPLES, "axpy", (1, 32), &parameters).unwrap();
    let reports = control.take_reports();
    assert!(reports.len() == 1 && reports[0].starts_with("uninitialised"), "{reports:?}");
    device(1);
    let parameters = [At(x), At(y), Single(1.0), Word(20)];
    assert_eq!(launched(SAMPLES, "axpy", (1, 32), &parameters), Err(700));
    assert!(control.take_reports()[0].contains("peer access is not enabled"));
    device(0);
    let parameters = [At(x + 1), At(y), Single(1.0), Word(20)];
    assert_eq!(launched(SAMPLES, "axpy", (1, 32), &parameters), Err(716));
    assert!(control.take_reports()[0].starts_with("misaligned"));
}

#[test]
fn launches_are_checked() {
    let Some(control) = under_driver(&[("FAKE_CUDA_CAPABILITY", "7.0")]) else { return };
    device(0);
    let module = Module::new(SAMPLES);
    let axpy = module.function("axpy");
    let parameters = [At(0), At(0), Single(0.0), Word(0)];
    for shape in [(0, 32), (1, 0), (1, 257), (1, 1025)] {
        assert!(launch(axpy, shape, DEFAULT_STREAM, &parameters).is_err(), "{shape:?}");
        assert!(control.take_reports()[0].starts_with("misuse"));
    }
    // SAFETY: no parameters are given, which must be found out.
    let none = unsafe {
        result::launch_kernel(axpy, (1, 1, 1), (1, 1, 1), 49 << 10, DEFAULT_STREAM, &mut [])
    };
    assert!(none.is_err());
    assert_eq!(control.take_reports().len(), 1);
    let missing = std::ffi::CString::new("no_such_kernel").unwrap();
    // SAFETY: the module is loaded.
    let missing = unsafe { result::module::get_function(module.handle(), missing) };
    assert_eq!(missing.unwrap_err().0, sys::cudaError_enum::CUDA_ERROR_NOT_FOUND);
    for (text, code) in [
        ("", 218),
        ("no PTX", 218),
        (&SAMPLES.replace("sm_70", "sm_75"), 209),
        (&SAMPLES.replace(".version 6.4", ".version 9.1"), 222),
        (&SAMPLES.replace("popc.b32", "popc.approx.b32"), 218),
        (&SAMPLES.replace("_ZL4tile[2048]", "_ZL4tile[50000]"), 218),
    ] {
        assert_eq!(Module::load(text).err().map(|error| error.0 as u32), Some(code));
    }
    // SAFETY: the function belongs to a loaded module.
    let threads = unsafe {
        result::function::get_function_attribute(
            axpy,
            sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        )
    };
    assert_eq!(threads, Ok(256));
    assert_eq!(control.take_reports(), NONE);
    module.unload();
    // SAFETY: the function is gone, which must be found out.
    assert!(launch(axpy, (1, 1), DEFAULT_STREAM, &parameters).is_err());
    assert!(control.take_reports()[0].contains("whose module was unloaded"));
}
