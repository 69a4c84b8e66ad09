//! What datasets are made of: the functions that check their arguments and make a source of them.

use std::sync::Arc;

use crate::error::memory::list;
use crate::error::{Error, Result};
use crate::input::arguments::in_range;
use crate::input::dataset::Dataset;
use crate::input::files::{File, FileList, FileSource, FilesOptions, MAX_AT_ONCE, OpenedDataset};
use crate::input::generator::{Generated, Generator};
use crate::input::memory;
use crate::input::op::Op;
use crate::input::range::Range;
use crate::input::slices::{Arrays, describe};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::tensor::Tensor;
use crate::values::Value;

impl Dataset {
    /// The slices of tensors along dimension 0: element i consists of row i of each tensor, in
    /// the structure of `components` (a tensor, or a nest of tensors whose dimensions 0 agree).
    ///
    /// The tensors are shared, not copied: batches of consecutive rows are read-only views of
    /// them. They must not be written while the dataset or an element of it is in use.
    ///
    /// INVALID_ARGUMENT: a scalar, dimensions 0 that differ, per-replica values, variables, no
    /// tensor at all. UNIMPLEMENTED: memory that the CPU cannot address.
    pub fn from_tensor_slices(components: &Value) -> Result<Dataset> {
        let mut tensors = Vec::new();
        let spec = describe(components, &mut tensors)?;
        let rows = tensors
            .first()
            .map(|tensor: &Tensor| tensor.shape()[0] as u64)
            .ok_or_else(|| Error::invalid("components", "they contain no tensor"))?;
        if let Some(position) = tensors.iter().position(|other| other.shape()[0] as u64 != rows) {
            return Err(Error::invalid(
                "components",
                format!(
                    "dimension 0 differs: {rows} in tensor 0 (shape {}), {} in tensor {position} \
                     (shape {}); row i of each tensor belongs to element i",
                    tensors[0].shape(),
                    tensors[position].shape()[0],
                    tensors[position].shape()
                ),
            ));
        }
        let arrays = Arc::new(Arrays { components: tensors, rows });
        Dataset::of(Op::Slices(arrays, spec), &[])
    }

    /// As [`Dataset::from_tensor_slices`], of a struct of `arrays` with these names; without names of a
    /// tuple, or of a single array itself.
    pub fn from_named_arrays(arrays: Vec<Tensor>, names: Option<&[&str]>) -> Result<Dataset> {
        let mut arrays = arrays.into_iter().map(Value::Tensor);
        let components = match names {
            Some(names) => {
                let names = names.iter().map(|&name| name.into());
                Value::structure(names.zip(arrays).collect())?
            }
            None if arrays.len() == 1 => arrays.next().unwrap_or_else(Value::nothing),
            None => Value::tuple(arrays.collect())?,
        };
        Dataset::from_tensor_slices(&components)
    }

    /// One element: `element`, a tensor or a nest of tensors. The tensors are shared, not copied,
    /// and must not be written while the dataset or its element is in use.
    ///
    /// INVALID_ARGUMENT: per-replica values, variables, no tensor at all.
    pub fn from_tensors(element: &Value) -> Result<Dataset> {
        let spec =
            ElementSpec::describe(element, "element", &mut |tensor| Ok(LeafSpec::of(tensor)))?;
        if spec.leaves() == 0 {
            return Err(Error::invalid("element", "it contains no tensor"));
        }
        of_elements(spec, vec![memory::read_only_value(element)?])
    }

    /// One element for each tensor. They have one dtype and rank; their shapes may differ, so that
    /// the element spec has no sizes. They are shared as by [`Dataset::from_tensors`].
    ///
    /// INVALID_ARGUMENT: no tensors, another dtype or rank.
    pub fn elements(tensors: &[Tensor]) -> Result<Dataset> {
        let first = tensors.first().ok_or_else(|| {
            Error::invalid(
                "tensors",
                "none; give one or more, which say the dtype and the dimensions",
            )
        })?;
        let mut elements = list(tensors.len(), "elements")?;
        for (position, tensor) in tensors.iter().enumerate() {
            if tensor.dtype() != first.dtype() || tensor.shape().rank() != first.shape().rank() {
                return Err(Error::invalid(
                    "tensors",
                    format!(
                        "tensor {position} is {} of shape {}, tensor 0 is {} of shape {}; all have \
                         one dtype and rank",
                        tensor.dtype(),
                        tensor.shape(),
                        first.dtype(),
                        first.shape()
                    ),
                ));
            }
            elements.push(Value::Tensor(memory::read_only(tensor)?));
        }
        let shape = vec![None; first.shape().rank()];
        of_elements(ElementSpec::Leaf(LeafSpec { dtype: first.dtype(), shape }), elements)
    }

    /// The int64 scalars `start`, `start + step`, ... as long as they are below `stop`, or above it
    /// if `step` is negative. INVALID_ARGUMENT if `step` is 0.
    pub fn range(start: i64, stop: i64, step: i64) -> Result<Dataset> {
        if step == 0 {
            return Err(Error::invalid("step", "0; numbers in steps of 0 never reach 'stop'"));
        }
        // In 128 bits, because the distance of two numbers of 64 bits may not fit in 64.
        let distance = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
        let distance = u128::try_from(distance).unwrap_or(0);
        let count = distance.div_ceil(u128::from(step.unsigned_abs()));
        // At most 2^64 - 1, because the numbers are distinct and below or above `stop`.
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        Dataset::of(Op::Range(Range { start, step, count }), &[])
    }

    /// The elements of generators, which are as `element_spec` says. `begin` makes a generator
    /// for each pass, when its first element is asked for; passes know nothing of each other.
    ///
    /// A generator's place can only be found again by going there: a restored pass begins one, resets
    /// it as often as the other one was, and asks for as many elements as that one had given since.
    /// It must give the same ones then.
    ///
    /// INVALID_ARGUMENT: a spec without tensors, or with per-replica values; while iterating, an
    /// element that is not as the spec says.
    pub fn from_generator(
        element_spec: ElementSpec,
        begin: impl Fn() -> Result<Box<dyn Generator>> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        element_spec.check_describes_elements("element_spec")?;
        let generated = Generated { begin: Arc::new(begin), spec: element_spec };
        Dataset::of(Op::Generator(generated), &[])
    }

    /// The elements of the datasets that `open` makes of files, which are known by their `paths`: what is
    /// at a path, if anything, is known to the function alone.
    ///
    /// A file is opened when its first element is wanted, and again in each pass and each round; it is
    /// closed when its dataset has ended. A shuffle in the dataset of one file therefore has the same order
    /// in each round; one of the dataset of all files has not. Where ranks read files of their own
    /// ([`Sharding::File`](crate::input::Sharding::File)), file i is opened by one of them alone.
    ///
    /// A file that cannot be opened is the failure of the element that is asked for then, and left out;
    /// after RESOURCE_EXHAUSTED it is opened again instead.
    /// INVALID_ARGUMENT: no files, numbers that are below 1, more than 4096 files at once, a spec without
    /// tensors; while iterating, elements that are not as the spec says, and a file's dataset of more than
    /// 127 transformations, of which a dataset of files counts as 128.
    pub fn from_files(
        paths: &[&str],
        open: impl Fn(File<'_>) -> Result<Dataset> + Send + Sync + 'static,
        options: FilesOptions,
    ) -> Result<Dataset> {
        if paths.is_empty() {
            return Err(Error::invalid("paths", "none; a dataset of files has one or more"));
        }
        let FilesOptions { element_spec, files_at_once, elements_in_turn, shuffle_files } = options;
        let what = format_args!("between 1 and {MAX_AT_ONCE}");
        let at_once = in_range("open_file_count", files_at_once, 1..=MAX_AT_ONCE, what)?;
        let in_turn = in_range("consecutive_count", elements_in_turn, 1.., "1 or more")?;
        let source = FileSource {
            paths: paths.iter().map(|&path| path.into()).collect(),
            open: Arc::new(move |file| {
                let dataset = open(file)?;
                let facts = dataset.facts().clone();
                Ok(OpenedDataset { facts, pipeline: Box::new(dataset) })
            }),
            spec: ElementSpec::tuple(Vec::new())?,
            at_once,
            // Nobody's turn ends where it is nobody else's.
            in_turn: if at_once == 1 { u64::MAX } else { in_turn },
            shuffle: shuffle_files,
        };
        let spec = match element_spec {
            Some(spec) => spec,
            None => source.dataset(0)?.facts.spec,
        };
        spec.check_describes_elements("element_spec")?;
        let source = Arc::new(FileSource { spec, ..source });
        let own = Arc::new((0..paths.len()).collect());
        let list = FileList { own, share: None, order: source.order(), source };
        Dataset::of(Op::Files(list), &[])
    }
}

fn of_elements(spec: ElementSpec, elements: Vec<Value>) -> Result<Dataset> {
    Dataset::of(Op::Tensors(Arc::new(elements), spec), &[])
}
