//! Heavy computations: the same results on many threads, on one, where the system has no thread, and after
//! the end of all threads; and rayon's global pool is never started. Alone in
//! its process, whose threads it counts and refuses.

mod threads;

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::sync::Arc;
use std::time::Duration;

use threads::allowing;
use umbo::device::DeviceId;
use umbo::equivalence::{CheckOptions, check};
use umbo::error::{Result, Status};
use umbo::executor::computing::{for_each_part, map, map_elements, map_ranges};
use umbo::executor::thread::{self, Purpose};
use umbo::executor::{affinity, shutdown};
use umbo::input::{Dataset, MapOptions};
use umbo::optimizer::{GradientMode, Gradients, LossReduction};
use umbo::strategy::variables::{self, Initial, NewVariable};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::tensor::{Shape, Tensor};
use umbo::values::Value;
use umbo::values::variable::{Aggregation, Synchronization, Variable};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

/// How many threads compute when there can be any: none beside the caller on one processor.
fn expected() -> usize {
    match affinity::process_processors().count() {
        1 => 0,
        count => count,
    }
}

fn alive() -> usize {
    thread::alive(Purpose::Compute)
}

const ELEMENTS: usize = 50_003;

/// Everything that the module offers, and whether it came out right.
fn computes() -> bool {
    let mut list = vec![0usize; ELEMENTS];
    for_each_part(&mut list, |first, part| {
        part.iter_mut().enumerate().for_each(|(at, element)| *element += first + at);
    });
    let ranges = map_ranges(ELEMENTS, |range| range);
    let doubled = map_elements(&list, |element| 2 * element).unwrap();
    // One in the other.
    let nested = map(&[0, 1, 2], ELEMENTS, |&item: &usize| {
        map_ranges(ELEMENTS, |range| range.len() + item).into_iter().sum::<usize>()
    });
    list.iter().copied().eq(0..ELEMENTS)
        && ranges.iter().cloned().flatten().eq(0..ELEMENTS)
        && ranges.len() > 1
        && doubled.into_iter().eq((0..ELEMENTS).map(|element| 2 * element))
        && nested.unwrap() == [0, 1, 2].map(|item| ELEMENTS + item * ranges.len())
}

fn variable(strategy: &Strategy, name: &str, elements: usize) -> Variable {
    let new = NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::Mean,
    };
    let shape = Shape::new(&[elements]).unwrap();
    let initial = Tensor::from_slice(&vec![0.0f32; elements], shape, DeviceId::HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

/// What a callback does wrong.
#[derive(Clone, Copy, Debug)]
enum Mistake {
    None,
    /// Takes the mean where a sum is declared.
    Mean,
    /// Uses the size of the part for more than the mean.
    PartSize,
    /// Leaves one element as it was.
    Unwritten,
}

/// Models with two large variables and a small one.
struct Model {
    strategy: Strategy,
    gradients: Arc<Gradients>,
    batch: Value,
}

impl Model {
    fn new() -> Model {
        let options =
            umbo::strategy::Options { cpu_replicas: 2, ..umbo::strategy::Options::default() };
        let strategy = Strategy::new(&options).unwrap();
        let variables = [("w", ELEMENTS), ("v", 20_000), ("b", 3)]
            .map(|(name, elements)| variable(&strategy, name, elements));
        let (devices, reduction) = (strategy.compute_devices(), LossReduction::Sum);
        let gradients =
            Gradients::new(strategy.id(), devices, variables.into(), reduction).unwrap();
        let rows: Vec<f32> = (0..6).map(|row| (row as f32 * 0.7).sin() + 1.5).collect();
        let shape = Shape::new(&[6]).unwrap();
        let batch = Tensor::from_slice(&rows, shape, DeviceId::HOST).unwrap();
        Model { strategy, gradients, batch: Value::Tensor(batch) }
    }

    /// All that a check says, numbers with their bits.
    fn report(&self, mistake: Mistake) -> String {
        let step = |context: &ReplicaContext| -> Result<Option<Value>> {
            let part = context.arguments()?.unwrap();
            let part = part.tensor_of(context.replica())?.to_vec::<f32>()?;
            let mode = match mistake {
                Mistake::Unwritten => GradientMode::Overwrite,
                _ => GradientMode::Add,
            };
            let examples = part.len().max(1) as f32;
            for index in 0..3 {
                let buffer = self.gradients.view_in(context, index, mode)?;
                for element in 0..buffer.shape().elements() {
                    if matches!(mistake, Mistake::Unwritten) && element == 40_000 {
                        continue;
                    }
                    let of_row = |&row: &f32| row * (element as f32 * 0.01 + row).sin();
                    let sum: f32 = part.iter().map(of_row).sum();
                    let value = match mistake {
                        Mistake::Mean => sum / examples,
                        Mistake::PartSize if element % 1000 == 999 => sum * examples.sqrt(),
                        _ => sum,
                    };
                    // SAFETY: the replica's own buffer of contiguous float32, which has the element.
                    unsafe { buffer.address().cast::<f32>().add(element).write(value) };
                }
            }
            self.gradients.submit_in(context, None)?;
            Ok(None)
        };
        let options = CheckOptions::default();
        let report =
            check(&self.strategy, &step, &self.batch, Some(&self.gradients), &options).unwrap();
        let mut text = report.text.clone();
        for finding in &report.findings {
            let (difference, factor) = (finding.difference.to_bits(), finding.factor.to_bits());
            writeln!(text, "{finding:?} {difference:x} {factor:x}").unwrap();
        }
        text
    }

    fn reports(&self) -> Vec<String> {
        [Mistake::None, Mistake::Mean, Mistake::PartSize, Mistake::Unwritten]
            .map(|mistake| self.report(mistake))
            .into()
    }
}

/// An archive of compressed arrays of float64, each of them `rows` rows, of which `damaged` are.
fn archive(rows: usize, damaged: &[usize]) -> std::path::PathBuf {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for array in 0..6 {
        let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 4), }}");
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((header.len() as u16).to_le_bytes());
        file.extend(header.as_bytes());
        let cut = if damaged.contains(&array) { 8 } else { 0 };
        for element in 0..4 * rows - cut {
            file.extend(((element * (array + 1)) as f64).to_le_bytes());
        }
        writer.start_file(format!("a{array}.npy"), options).unwrap();
        writer.write_all(&file).unwrap();
    }
    let name = format!("umbo-computing-{}-{}.npz", std::process::id(), damaged.len());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, writer.finish().unwrap().into_inner()).unwrap();
    path
}

fn reads(path: &std::path::Path, rows: usize) -> bool {
    let iterator = Dataset::from_npz_file(path, None).unwrap().iterator().unwrap();
    let mut count = 0;
    while let Some(element) = iterator.next().unwrap() {
        for array in 0..6 {
            let leaf = element.at_path(&format!("a{array}")).unwrap();
            let seen = leaf.tensor_of(0).unwrap().to_vec::<f64>().unwrap();
            let expected: Vec<f64> =
                (4 * count..4 * count + 4).map(|at| (at * (array + 1)) as f64).collect();
            if seen != expected {
                return false;
            }
        }
        count += 1;
    }
    count == rows
}

#[test]
fn heavy_work_is_the_same_whoever_does_it() {
    const ROWS: usize = 2000;
    let model = Model::new();
    let (good, bad) = (archive(ROWS, &[]), archive(ROWS, &[2, 4]));
    let damage = |path| {
        let error = Dataset::from_npz_file(path, None).err().unwrap();
        assert_eq!(error.status(), Status::DataLoss, "{error}");
        error.to_string()
    };

    // Without threads, and with fewer than are wanted; the pool's that were started end again.
    let alone = allowing(0, || {
        assert!(computes() && reads(&good, ROWS));
        (model.reports(), damage(&bad))
    });
    assert_eq!(alive(), 0);
    assert!(alone.0[0].starts_with("equivalent"), "{}", alone.0[0]);
    assert!(alone.0[1..].iter().all(|text| text.starts_with("not equivalent")), "{alone:?}");
    std::thread::sleep(Duration::from_millis(150));
    allowing(expected() as i64 - 1, || assert!(computes()));
    assert_eq!(alive(), 0);

    // A while later there are all of them, and everything comes out as before.
    std::thread::sleep(Duration::from_millis(150));
    assert!(computes() && reads(&good, ROWS));
    assert_eq!(alive(), expected());
    assert_eq!((model.reports(), damage(&bad)), alone);

    // The pool's threads and no others have computed, on all processors.
    let names = map(&[(); 100], ELEMENTS, |()| {
        (thread::current_name(), affinity::current_thread_processors().unwrap())
    });
    for (name, processors) in names.unwrap() {
        assert_eq!(name.starts_with("umbo-compute-"), expected() > 0, "{name}");
        assert!(expected() == 0 || processors == *affinity::process_processors());
    }

    // Where there is little to do nobody is asked, nor from a thread of the program's own pool, which
    // would do the program's work while it waits.
    let here = thread::current_name();
    assert_eq!(map(&[1, 2], 10, |_| thread::current_name()).unwrap(), [here.clone(), here]);
    let programs = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let ours = || map_ranges(ELEMENTS, |_| thread::current_name().starts_with("umbo-compute-"));
    assert!(programs.install(ours).into_iter().all(|ours| !ours));

    // Nobody ends the threads under somebody who computes.
    drop(model);
    if expected() > 0 {
        for error in map_ranges(ELEMENTS, |_| shutdown::shut_down().unwrap_err()) {
            assert_eq!(error.status(), Status::FailedPrecondition);
            assert!(error.to_string().contains("heavy computations are in use"), "{error}");
        }
        assert_eq!(alive(), expected());
    }
    for _ in 0..3 {
        assert!(computes());
        assert_eq!(alive(), expected());
        shutdown::shut_down().unwrap();
        assert_eq!(alive(), 0);
    }

    // Several at once, one of which has a panic that reaches its caller alone.
    std::thread::scope(|scope| {
        for caller in 0..4 {
            scope.spawn(move || {
                for _ in 0..20 {
                    let panics = std::panic::catch_unwind(|| {
                        map_ranges(ELEMENTS, |range| {
                            if caller == 0 && range.start > 0 {
                                std::panic::resume_unwind(Box::new("no message"));
                            }
                        })
                    });
                    assert_eq!(panics.is_err(), caller == 0);
                    assert!(computes());
                }
            });
        }
    });
    shutdown::shut_down().unwrap();

    // Threads of parallel maps end with their iterators, and are named until then.
    let options = MapOptions { parallel_calls: 3, element_spec: None };
    let mapped = Dataset::range(0, 10, 1).unwrap().map(|element| Ok(element.clone()), options);
    let iterator = mapped.unwrap().iterator().unwrap();
    iterator.next().unwrap().unwrap();
    let error = shutdown::shut_down().unwrap_err();
    assert_eq!(error.status(), Status::FailedPrecondition);
    let text = error.to_string();
    assert!(text.contains("3 threads of parallel maps: release their iterators"), "{text}");
    drop(iterator);
    shutdown::shut_down().unwrap();

    // The first to start rayon's global pool.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    for path in [good, bad] {
        std::fs::remove_file(path).unwrap();
    }
}
