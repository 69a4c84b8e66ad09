//! Kernels with one small mistake each: the comparison with the host, or the driver, finds it.

mod programs;

use cudarc::driver::result;
use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use fake_cuda::mutate::{isolate, mutants};
use programs::Parameter::{At, Single, Word};
use programs::*;

const SAMPLES: &str = include_str!("kernels/samples.ptx");

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 1009) as f32 * 0.37 - 180.0).collect()
}

/// Whether `axpy` does what it should, as far as one can see from outside.
fn axpy_is_right(module: &Module, count: usize, shape: (u32, u32)) -> bool {
    let (x, y) = (values(count + 1), values(count + 2));
    let (gx, gy) = (allocate(4 * (count + 1)), allocate(4 * (count + 2)));
    upload(gx, &x, DEFAULT_STREAM).unwrap();
    upload(gy, &y, DEFAULT_STREAM).unwrap();
    let parameters = [At(gx), At(gy), Single(1.37), Word(count as u32)];
    let right = launch(module.function("axpy"), shape, DEFAULT_STREAM, &parameters)
        .and_then(|()| download::<f32>(gy, count + 2, DEFAULT_STREAM))
        .is_ok_and(|got| {
            let expected = |i: usize| if i < count { y[i] + 1.37 * x[i] } else { y[i] };
            got.iter().enumerate().all(|(i, got)| got.to_bits() == expected(i).to_bits())
        });
    forget(&[gx, gy]);
    right
}

fn sum_is_right(module: &Module, count: usize) -> bool {
    let mut x = values(count);
    // The sum of zeros shows how they are added.
    if count == 256 {
        x.fill(-0.0);
    }
    let blocks = count.div_ceil(1024);
    let (gx, sums) = (allocate(4 * count), allocate(8 * blocks));
    upload(gx, &x, DEFAULT_STREAM).unwrap();
    let parameters = [At(gx), At(sums), Word(count as u32)];
    let right = launch(module.function("sum"), (blocks as u32, 256), DEFAULT_STREAM, &parameters)
        .and_then(|()| download::<f64>(sums, blocks, DEFAULT_STREAM))
        .is_ok_and(|got| {
            let expected = |block: usize| {
                let part = |i: usize| x.get(block * 1024 + i).map_or(0.0, |x| f64::from(*x));
                let mut tile: Vec<f64> =
                    (0..256).map(|t| (0..4).fold(0.0, |s, k| s + part(k * 256 + t))).collect();
                for width in [128, 64, 32, 16, 8, 4, 2, 1] {
                    (0..width).for_each(|t| tile[t] += tile[t + width]);
                }
                tile[0]
            };
            got.iter().enumerate().all(|(block, got)| got.to_bits() == expected(block).to_bits())
        });
    forget(&[gx, sums]);
    right
}

/// Frees memory although an error may have broken the context.
fn forget(memory: &[u64]) {
    let control = Control::open().expect("the fake driver is loaded");
    control.mend();
    result::ctx::synchronize().unwrap();
    memory.iter().for_each(|at| free(*at).unwrap());
}

/// How many mutants there are, and those that nothing notices.
fn survivors(
    control: &Control,
    name: &str,
    is_right: impl Fn(&Module) -> bool,
) -> (usize, Vec<String>) {
    let text = isolate(SAMPLES, name).expect("the kernel is there");
    let original = Module::new(&text);
    assert!(is_right(&original));
    assert_eq!(control.take_reports(), [] as [&str; 0]);
    original.unload();
    let all = mutants(&text);
    let mut survived = vec![];
    for mutant in &all {
        let module = Module::new(&mutant.apply(&text));
        let unnoticed = is_right(&module) && control.take_reports().is_empty();
        control.take_reports();
        module.unload();
        if unnoticed {
            survived.push(format!("{} -> {}", mutant.before, mutant.after));
        }
    }
    println!("{name}: {} mutants, {} not noticed", all.len(), survived.len());
    (all.len(), survived)
}

#[test]
fn mutants_of_kernels_are_noticed() {
    let Some(control) = under_driver(&[("FAKE_CUDA_QUIET", "1")]) else { return };
    device(0);
    control.limit_branches(1_000_000);
    let (count, survived) = survivors(&control, "axpy", |module| {
        [(1, (1, 32)), (70, (1, 32)), (64, (2, 32)), (1000, (3, 64))]
            .into_iter()
            .all(|(count, shape)| axpy_is_right(module, count, shape))
    });
    assert!(count > 15, "{count}");
    assert_eq!(survived, [] as [&str; 0]);
    let (count, survived) = survivors(&control, "sum", |module| {
        [1, 255, 256, 512, 768, 1000, 1024, 1025, 2560, 5000]
            .into_iter()
            .all(|count| sum_is_right(module, count))
    });
    assert!(count > 80, "{count}");
    // After the last step of the tree one thread reads what it wrote itself.
    assert!(survived.len() == 1 && survived[0].starts_with("bar.sync"), "{survived:?}");
}

#[test]
fn a_changed_module_takes_the_place_of_the_one_with_its_kernels() {
    let folder = std::env::temp_dir().join(format!("fake-cuda-changed-{}", std::process::id()));
    let (changed, launched) = (folder.join("changed.ptx"), folder.join("launched"));
    if std::env::var_os("FAKE_CUDA_INSIDE").is_none() {
        std::fs::create_dir_all(&folder).unwrap();
        // The first addition of the samples is that of axpy.
        let mut all = mutants(SAMPLES).into_iter();
        let add = all.find(|mutant| mutant.before.starts_with("add.rn.f32"));
        std::fs::write(&changed, add.expect("axpy adds").apply(SAMPLES)).unwrap();
    }
    let settings = [
        ("FAKE_CUDA_MODULE", changed.to_str().unwrap()),
        ("FAKE_CUDA_LAUNCHED", launched.to_str().unwrap()),
    ];
    let Some(control) = under_driver(&settings) else {
        assert_eq!(std::fs::read_to_string(&launched).unwrap(), "axpy\n");
        std::fs::remove_dir_all(&folder).unwrap();
        return;
    };
    device(0);
    assert!(!axpy_is_right(&Module::new(SAMPLES), 70, (1, 32)));
    // A module with other kernels stays what it is.
    let alone = isolate(SAMPLES, "axpy").unwrap();
    assert!(axpy_is_right(&Module::new(&alone), 70, (1, 32)));
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}
