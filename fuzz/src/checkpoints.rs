//! Checkpoints and other files of tensors in the safetensors format.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::checkpoint::{Checkpoint, LoadWeightsOptions, Number, SavedIterator};
use umbo_core::device::DeviceId;
use umbo_core::input::{Dataset, ShuffleOptions, distribute_dataset};
use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{Gradients, LossReduction, Optimizer};
use umbo_core::strategy::variables::{Initial, NewVariable, create, read};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::variable::{Aggregation, Synchronization, Variable};

use super::file::{holding, written_by};

/// A training that files are restored into.
struct Training {
    checkpoint: Arc<Checkpoint>,
    variables: Vec<Variable>,
    /// As it was saved before anything was restored.
    saved: Vec<u8>,
    _strategy: Strategy,
}

impl Training {
    fn new() -> Training {
        let options = Options {
            cpu_replicas: 1,
            ..Options::default()
        };
        let strategy = Strategy::new(&options).expect("a strategy");
        let variables = vec![
            variable(&strategy, "kernel", &[2, 3], DType::Float32),
            variable(&strategy, "bias", &[], DType::Float64),
        ];
        let adam = Box::new(Adam::new(0.9, 0.99, 1e-8).expect("settings"));
        let optimizer = Optimizer::new(strategy.id(), adam, 0.1).expect("an optimizer");
        let devices = strategy.replica_devices();
        let reduction = LossReduction::Mean;
        let gradients = Gradients::new(
            strategy.id(),
            devices,
            variables.clone(),
            reduction,
            Default::default(),
        );
        let metrics = Metrics::new(&strategy);
        for (name, kind) in [
            ("loss", MetricKind::Mean),
            ("matrix", MetricKind::confusion(2).expect("classes")),
            ("auc", MetricKind::auc(3, 0.0, 1.0).expect("bins")),
        ] {
            metrics.define(name, kind).expect("a metric");
        }
        let shuffle = ShuffleOptions {
            buffer_size: 3,
            seed: 1,
            keep_order_each_pass: false,
        };
        let numbers = Dataset::range(0, 9, 1).and_then(|all| all.shuffle(&shuffle));
        let batches = numbers
            .and_then(|all| all.batch(2, false))
            .expect("batches");
        let batches = distribute_dataset(&strategy, &batches, &Default::default()).expect("parts");
        let pass = Arc::new(batches.iterator().expect("a pass"));
        pass.next().expect("a first batch");

        let checkpoint = Checkpoint::new(&strategy);
        let add = |name: &str, object| checkpoint.add(name, object).expect("a new name");
        for variable in &variables {
            add(variable.name().as_str(), Arc::new(variable.clone()) as _);
        }
        add("optimizer", optimizer as _);
        add("gradients", gradients.expect("gradients") as _);
        add("metrics", metrics as _);
        add("pass", Arc::new(SavedIterator(pass)) as _);
        checkpoint
            .set_number("epoch", Number::Integer(3))
            .expect("a number");
        checkpoint
            .set_number("best", Number::Float(f64::NAN))
            .expect("a number");
        checkpoint.set_string("notes", "none").expect("a string");
        let saved = written_by(|path| checkpoint.save(path).expect("a file"));
        Training {
            checkpoint,
            variables,
            saved,
            _strategy: strategy,
        }
    }

    /// What is in it, as it would be saved.
    fn state(&self) -> Vec<u8> {
        written_by(|path| self.checkpoint.save(path).expect("a file"))
    }

    /// The bits of the weights.
    fn weights(&self) -> Vec<u64> {
        let bits = |variable: &Variable| {
            let value = read(variable).expect("a value");
            match value.dtype() {
                DType::Float64 => bits_of(value.to_vec::<f64>().expect("its elements")),
                _ => bits_of(value.to_vec::<f32>().expect("its elements")),
            }
        };
        self.variables.iter().flat_map(bits).collect()
    }
}

fn variable(strategy: &Strategy, name: &str, sizes: &[usize], dtype: DType) -> Variable {
    let shape = Shape::new(sizes).expect("a shape");
    let value = Tensor::zeros(dtype, shape, DeviceId::HOST).expect("a tensor");
    let new = NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::Mean,
    };
    create(Some(strategy), new, Initial::Value(&value)).expect("a variable")
}

fn with_training<T>(use_it: impl FnOnce(&Training) -> T) -> T {
    thread_local!(static TRAINING: OnceCell<Training> = const { OnceCell::new() });
    TRAINING.with(|training| use_it(training.get_or_init(Training::new)))
}

/// Any file: its tensors are read, and loaded as weights.
pub fn weights(bytes: &[u8]) {
    holding(bytes, |path| {
        let file = CheckpointFile::open(path);
        if let Ok(file) = &file {
            for name in file.names() {
                assert!(file.info(name).is_some(), "a name without a tensor");
            }
            // Whether its checksums are right may be either.
            let _ = file.verify();
        }
        let in_memory = CheckpointFile::in_memory(bytes);
        assert_eq!(in_memory.is_ok(), file.is_ok(), "memory and a file differ");
        with_training(|training| {
            let before = training.weights();
            if let Ok(file) = &in_memory {
                let options = LoadWeightsOptions {
                    convert_floats: true,
                    allow_missing: true,
                    ..LoadWeightsOptions::default()
                };
                let loaded = training.checkpoint.load_weights_from(file, options);
                assert!(
                    loaded.is_ok() || training.weights() == before,
                    "refused bytes changed weights"
                );
            }
            let before = training.weights();
            let loaded = training.checkpoint.load_weights(path, None);
            assert!(
                loaded.is_err() || file.is_ok(),
                "weights of a file that cannot be opened"
            );
            if loaded.is_err() {
                assert_eq!(training.weights(), before, "a refused file changed weights");
            }
        });
    });
}

fn bits_of<T: Into<f64>>(values: Vec<T>) -> Vec<u64> {
    values
        .into_iter()
        .map(|value| value.into().to_bits())
        .collect()
}

/// A file whose checksums are made right before it is restored, so that what is behind them is
/// reached: what is refused changes nothing, and what is accepted can be saved and restored again.
pub fn resealed(bytes: &[u8]) {
    let bytes = sealed(bytes);
    with_training(|training| {
        let before = training.state();
        let in_memory = training.checkpoint.restore_from_memory(&bytes);
        let restored = holding(&bytes, |path| training.checkpoint.restore(path));
        assert_eq!(
            in_memory.is_ok(),
            restored.is_ok(),
            "memory and a file differ"
        );
        match restored {
            Err(_) => assert!(
                training.state() == before,
                "a refused file changed something"
            ),
            Ok(()) => {
                let after = training.state();
                let again = holding(&after, |path| training.checkpoint.restore(path));
                again.expect("what was restored and saved is restored again");
                assert!(
                    training.state() == after,
                    "restoring what was saved changed something"
                );
                let first = holding(&training.saved, |path| training.checkpoint.restore(path));
                first.expect("the first state is restored");
            }
        }
    });
}

/// The same bytes with right checksums, as far as there is a header that can have them.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    sealed_if_whole(bytes).unwrap_or_else(|| bytes.to_vec())
}

fn sealed_if_whole(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    let header: Json = serde_json::from_slice(bytes.get(8..)?.get(..length)?).ok()?;
    let data = &bytes[8 + length..];
    let mut own: Json = serde_json::from_str(header["__metadata__"][CHECKPOINT].as_str()?).ok()?;
    let mut tensors: BTreeMap<&String, &Json> = header.as_object()?.iter().collect();
    tensors.remove(&"__metadata__".to_owned());
    let line = |(name, info): (&&String, &&Json)| {
        let sizes = info["shape"].as_array().into_iter().flatten();
        let sizes: String = sizes.map(|size| format!(" {size}")).collect();
        format!(
            "{name} {}{sizes}\n",
            info["dtype"].as_str().unwrap_or_default()
        )
    };
    let lines: String = tensors.iter().map(line).collect();
    let elements = tensors.values().map(|info| {
        let offset = |at: usize| {
            info["data_offsets"][at]
                .as_u64()
                .map(|offset| offset as usize)
        };
        let elements = offset(0)
            .zip(offset(1))
            .and_then(|(start, end)| data.get(start..end));
        digits(crc32fast::hash(elements.unwrap_or_default()))
    });
    let elements: String = elements.collect();
    let fields = own.as_object_mut()?;
    fields.insert("elements".into(), elements.into());
    let tensors = digits(crc32fast::hash(lines.as_bytes()));
    fields.insert("tensors".into(), tensors.into());
    let own = own.to_string();
    let mut header = header.as_object()?.clone();
    header.insert(
        "__metadata__".into(),
        json!({CHECKSUM: digits(crc32fast::hash(own.as_bytes())), CHECKPOINT: own}),
    );
    let mut header = serde_json::to_vec(&header).ok()?;
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut all = (header.len() as u64).to_le_bytes().to_vec();
    all.append(&mut header);
    all.extend(data);
    Some(all)
}

const CHECKPOINT: &str = "umbo.checkpoint";
const CHECKSUM: &str = "umbo.crc32";

fn digits(checksum: u32) -> String {
    format!("{checksum:08x}")
}

pub fn seeds() -> Vec<Vec<u8>> {
    let plain = |header: &str, bytes: usize| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(std::iter::repeat_n(1, bytes));
        file
    };
    let kernel = r#""kernel":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}"#;
    let bias = r#""bias":{"dtype":"F64","shape":[],"data_offsets":[24,32]}"#;
    vec![
        with_training(|training| training.saved.clone()),
        plain(&format!("{{{kernel},{bias}}}"), 32),
        plain("{}", 0),
    ]
}
