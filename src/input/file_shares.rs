//! Pipelines over files of which each rank reads some: what they are made of, and what stands in the way.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result, memory};
use crate::input::dataset::Dataset;
use crate::strategy::ranks::agreement;
use crate::text::Text;

/// One of several shares of the files of a pipeline: file i belongs to share i mod the number of shares. The
/// files of all sources are counted, one source after the other.
pub(super) struct FileShare {
    shares: usize,
    index: usize,
    next: usize,
}

impl FileShare {
    pub(super) fn new(shares: usize, index: usize) -> FileShare {
        FileShare { shares, index, next: 0 }
    }

    /// Whether the next file belongs to the share.
    pub(super) fn has_next(&mut self) -> bool {
        let has = self.next % self.shares == self.index;
        self.next += 1;
        has
    }
}

impl fmt::Display for FileShare {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.index, self.shares)
    }
}

type Remake = Arc<dyn Fn(&mut FileShare) -> Result<Dataset> + Send + Sync>;

/// What a dataset knows of the files that its elements are read from.
#[derive(Clone)]
pub(super) struct Files {
    count: usize,
    /// A hash of their names, in order.
    names: u64,
    first: Text,
    /// How many rows a batch has, if that is known of the batches that the elements were made of alone.
    rows: Option<usize>,
    way: Way,
}

#[derive(Clone)]
enum Way {
    /// The same over a share of the files.
    Share(Remake),
    /// Only all files make up what it is. Why.
    Whole(&'static str),
}

/// The files of a pipeline whose ranks can read some each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) count: usize,
    /// A hash of their names, in order.
    pub(super) names: u64,
    pub(super) first: Text,
    /// How many rows a full batch has.
    pub(super) rows: usize,
}

impl Files {
    /// Of a source of `count` files.
    pub(super) fn new(
        count: usize,
        names: u64,
        first: &str,
        share: impl Fn(&mut FileShare) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Files {
        let (first, way) = (first.into(), Way::Share(Arc::new(share)));
        Files { count, names, first, rows: None, way }
    }
}

impl Dataset {
    /// The dataset as `again` makes it of `input`, and would of any dataset of other elements of the kind.
    pub(super) fn remade_of(
        self,
        input: &Dataset,
        again: impl Fn(&Dataset) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Dataset {
        let Some(files) = input.files() else { return self };
        let way = match &files.way {
            Way::Whole(why) => Way::Whole(why),
            Way::Share(share) => {
                let share = Arc::clone(share);
                Way::Share(Arc::new(move |of: &mut FileShare| again(&share(of)?)))
            }
        };
        self.reading(Files { rows: None, way, ..files.clone() })
    }

    /// The same, where a batch stays a batch of as many rows, as far as anybody knows.
    pub(super) fn remade_of_batches(
        self,
        input: &Dataset,
        again: impl Fn(&Dataset) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Dataset {
        let rows = input.rows_of_batches();
        self.remade_of(input, again).of_batches(rows)
    }

    /// The same, of batches that have so many rows.
    pub(super) fn of_batches(self, rows: Option<usize>) -> Dataset {
        match self.files().cloned() {
            None => self,
            Some(files) => self.reading(Files { rows, ..files }),
        }
    }

    /// The dataset, which shares of the files of `inputs` do not make shares of. `why` names who is not
    /// content with some of the elements.
    pub(super) fn only_of_all_files(self, inputs: &[Dataset], why: &'static str) -> Dataset {
        match inputs.iter().find_map(Dataset::files) {
            None => self,
            Some(files) => self.reading(Files { way: Way::Whole(why), ..files.clone() }),
        }
    }

    /// The dataset as `join` makes it of `inputs`, of which either all are made of files or none is.
    pub(super) fn remade_joined(
        self,
        inputs: &[Dataset],
        join: impl Fn(&[Dataset]) -> Result<Dataset> + Send + Sync + 'static,
    ) -> Dataset {
        let of: Vec<&Files> = inputs.iter().filter_map(Dataset::files).collect();
        let Some(&first) = of.first() else { return self };
        let count = of.iter().map(|files| files.count).sum();
        let names = agreement(&of.iter().map(|files| files.names).collect::<Vec<_>>());
        let whole = of.iter().find_map(|files| match files.way {
            Way::Whole(why) => Some(why),
            Way::Share(_) => None,
        });
        let way = match whole {
            Some(why) => Way::Whole(why),
            None if of.len() < inputs.len() => {
                Way::Whole("concatenate with what is not made of files")
            }
            None => {
                let inputs = inputs.to_vec();
                Way::Share(Arc::new(move |share: &mut FileShare| {
                    let parts = inputs.iter().map(|input| input.share_of_files(share));
                    join(&memory::collect(parts, "datasets")?)
                }))
            }
        };
        self.reading(Files { count, names, first: first.first.clone(), rows: None, way })
    }

    /// How many rows a full batch has, as far as that is known.
    fn rows_of_batches(&self) -> Option<usize> {
        let size = self.batch_size().map(|size| size.rows);
        size.or_else(|| self.files().and_then(|files| files.rows))
    }

    /// The files of the pipeline, if `ranks` ranks can have some each.
    ///
    /// INVALID_ARGUMENT: why they cannot.
    pub(super) fn files_for(&self, ranks: usize) -> Result<Listed> {
        let refused = |problem: String| {
            Error::invalid("sharding", format!("files are to be dealt out to ranks, and {problem}"))
        };
        let advice = "or have batches split over the ranks";
        let files = self.files().ok_or_else(|| {
            refused(format!(
                "the dataset is not made of files; make it of a list of files and a function that opens \
                 one, {advice}"
            ))
        })?;
        if let Way::Whole(why) = files.way {
            return Err(refused(format!(
                "the pipeline has {why} behind them, which needs the elements of all files; do that in \
                 the function that opens a file, {advice}"
            )));
        }
        let Files { count, names, ref first, .. } = *files;
        if count < ranks {
            return Err(refused(format!(
                "there are fewer files ({count}) than ranks ({ranks}); write the data to as many files \
                 as there are ranks, or more, {advice}"
            )));
        }
        let rows = self.rows_of_batches().ok_or_else(|| {
            refused(format!(
                "it is not known how many rows a batch has, of which each rank reads its part; batch the \
                 elements of the files, {advice}"
            ))
        })?;
        Ok(Listed { count, names, first: first.clone(), rows })
    }

    /// The same pipeline over a share of the files.
    pub(super) fn share_of_files(&self, share: &mut FileShare) -> Result<Dataset> {
        match self.files().map(|files| &files.way) {
            Some(Way::Share(remake)) => remake(share),
            _ => Err(Error::Internal("a share of files that have none".into())),
        }
    }
}
