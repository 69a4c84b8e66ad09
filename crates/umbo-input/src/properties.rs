//! The properties of a dataset that are known before its first element is made.

use std::ops::Range;
use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::elements::spec::ElementSpec;
use crate::sources::slices::Arrays;
use crate::transforms::suspects::OrderFacts;
use umbo_base::error::Result;
use umbo_base::text::Text;

/// The largest number of nested operations. Each one takes a part of the stack of the thread that
/// iterates, makes an iterator or releases one.
const MAX_DEPTH: usize = 256;

/// The largest number of operations of an iterator, each of which takes memory. Without this limit,
/// a dataset that is repeatedly joined with itself would take twice as much each time.
const MAX_STAGES: usize = 1 << 16;

/// The properties of a dataset that are known without reading it. An operation begins with the
/// properties of its first input. It calls [`DatasetProperties::replace`] if it makes other
/// elements, [`DatasetProperties::reorder`] if items come in another order, and
/// [`DatasetProperties::need_all_files`] if a share of the files would not make a share
/// of its elements.
#[derive(Clone)]
pub(crate) struct DatasetProperties {
    pub(crate) spec: ElementSpec,
    pub(crate) cardinality: Cardinality,
    /// The rows of a full batch, if the elements are batches and the spec does not contain it.
    pub(crate) batches: Option<usize>,
    /// The number of times that the elements were batched, as far as that is certain.
    pub(crate) batched: Option<Batched>,
    /// The files that the elements are read from, if there are any.
    pub(crate) files: Option<Files>,
    /// The arrays whose rows are the elements, if they are rows.
    pub(crate) rows: Option<RowFacts>,
    /// The order of the elements, and how they are kept.
    pub(crate) order: OrderFacts,
    /// Whether functions of the caller change elements, so that each process may have drawn them
    /// for itself.
    pub(crate) has_functions: bool,
    /// The number of operations that are nested, the source included.
    pub(crate) depth: usize,
    /// The number of operations an iterator has, the sources included. An operation counts as often
    /// as it is used.
    pub(crate) stages: usize,
}

/// The number of times that elements were batched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batched {
    /// The elements are single rows of arrays.
    Never,
    Once,
    /// The elements are batches of batches.
    Twice,
}

/// The properties of the files that the elements of a dataset are read from.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) count: usize,
    /// A hash of their names, in order.
    pub(crate) names: u64,
    pub(crate) first: Text,
    /// The number of rows a batch has, if that is known from the batches that the elements were
    /// made of.
    pub(crate) rows: Option<usize>,
    /// The operation that needs the elements of all files, if there is one: over a share of the
    /// files it would not make a share of its elements.
    pub(crate) whole: Option<&'static str>,
}

/// The properties of elements that are rows of arrays. Passes over them are passes over row
/// numbers.
#[derive(Clone)]
pub(crate) struct RowFacts {
    pub(crate) arrays: Arc<Arrays>,
    /// Whether all rows come, in the arrays' own order.
    pub(crate) in_order: bool,
}

impl DatasetProperties {
    /// The properties of a source of elements like `spec`.
    pub(crate) fn source(spec: ElementSpec, cardinality: Cardinality) -> DatasetProperties {
        DatasetProperties {
            spec,
            cardinality,
            batches: None,
            batched: None,
            files: None,
            rows: None,
            order: OrderFacts::default(),
            has_functions: false,
            depth: 1,
            stages: 1,
        }
    }

    /// The properties of the rows of `arrays`.
    pub(crate) fn of_arrays(spec: ElementSpec, arrays: &Arc<Arrays>) -> DatasetProperties {
        let rows = Some(RowFacts {
            arrays: Arc::clone(arrays),
            in_order: true,
        });
        let batched = Some(Batched::Never);
        DatasetProperties {
            rows,
            batched,
            ..DatasetProperties::source(spec, Cardinality::Exact(arrays.rows))
        }
    }

    /// The properties of the first of `inputs`, with one more operation, which is applied to all of
    /// `inputs`. INVALID_ARGUMENT if too many operations are nested, or if there are too many
    /// in all.
    pub(crate) fn above(inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut deepest = 0;
        let mut stages = 1_usize;
        for input in inputs {
            deepest = deepest.max(input.depth);
            stages = stages.saturating_add(input.stages);
        }
        if deepest >= MAX_DEPTH {
            return Err(invalid!(
                "dataset",
                "{deepest} transformations follow one another; at most {MAX_DEPTH} can. Build \
                 a pipeline once and not again in each round; concatenate and zip take many \
                 datasets at once"
            ));
        }
        if stages > MAX_STAGES {
            return Err(invalid!(
                "dataset",
                "it would consist of {stages} transformations, each counted as often as it is \
                 used; at most {MAX_STAGES} are possible. A dataset whose elements are to come \
                 several times is repeated, not joined with itself"
            ));
        }
        let order = OrderFacts::of(inputs.iter().map(|input| &input.order));
        let has_functions = inputs.iter().any(|input| input.has_functions);
        Ok(DatasetProperties {
            depth: deepest + 1,
            stages,
            order,
            has_functions,
            ..inputs[0].clone()
        })
    }

    /// The rows of a full batch, if the elements are batches and it is known before the first one.
    pub(crate) fn batch_size(&self) -> Option<usize> {
        self.spec.rows().or(self.batches)
    }

    /// The arrays, if the elements are all of their rows in the arrays' own order.
    pub(crate) fn rows_in_order(&self) -> Option<&Arrays> {
        self.rows
            .as_ref()
            .filter(|rows| rows.in_order)
            .map(|rows| &*rows.arrays)
    }

    /// Records that other items come, or the same in another order. Their number is `cardinality`.
    pub(crate) fn reorder(&mut self, cardinality: Cardinality) {
        self.cardinality = cardinality;
        if let Some(rows) = &mut self.rows {
            rows.in_order = false;
        }
    }

    /// Records that only the rows in `range` come, if those of `input` come in the arrays' own
    /// order.
    pub(crate) fn take_rows(&mut self, input: &DatasetProperties, range: Range<u64>) -> Result<()> {
        if let Some(arrays) = input.rows_in_order() {
            let part = arrays.part(range.start.min(arrays.rows), range.end.min(arrays.rows))?;
            self.rows = Some(RowFacts {
                arrays: Arc::new(part),
                in_order: true,
            });
        }
        Ok(())
    }

    /// Records that the same operation over a share of the files does not make a share of the
    /// elements. `why` names the operation.
    pub(crate) fn need_all_files(&mut self, why: &'static str) {
        if let Some(files) = &mut self.files {
            files.whole = Some(why);
        }
    }

    /// Records that the operation makes other elements, which `spec` describes.
    pub(crate) fn replace(&mut self, spec: ElementSpec) {
        (self.spec, self.batches, self.batched, self.rows) = (spec, None, None, None);
    }
}

/// The number of times that the elements of all `inputs` were batched, if the answer is the same
/// for all.
pub(crate) fn common_batched(inputs: &[&DatasetProperties]) -> Option<Batched> {
    let times = inputs.first()?.batched;
    times.filter(|_| inputs.iter().all(|input| input.batched == times))
}

/// The batch size of the datasets, if it is known and the same for all.
pub(crate) fn common_batch_size(inputs: &[&DatasetProperties]) -> Option<usize> {
    let rows = inputs.first()?.batch_size();
    rows.filter(|_| inputs.iter().all(|input| input.batch_size() == rows))
}
