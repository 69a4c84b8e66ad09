//! Pipelines over files of which each rank reads some: whether a pipeline can be divided like this,
//! and why not.

use crate::properties::{DatasetProperties, Files};
use umbo_base::error::Result;
use umbo_strategy::ranks::agreement;

/// One of several shares of the files of a pipeline. File i belongs to share i mod the number of
/// shares. The files of all sources are numbered consecutively, one source after the other.
pub(crate) struct FileShare {
    shares: usize,
    index: usize,
    next: usize,
}

impl FileShare {
    pub(crate) fn new(shares: usize, index: usize) -> FileShare {
        FileShare {
            shares,
            index,
            next: 0,
        }
    }

    /// Whether the next file belongs to the share.
    pub(crate) fn has_next(&mut self) -> bool {
        let has = self.next % self.shares == self.index;
        self.next += 1;
        has
    }

    /// The index of the share, and the number of shares.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.index, self.shares)
    }
}

/// The files of datasets whose elements come in one dataset. Either all of the datasets are made of
/// files, or none is; `mixed` names the operation over some that are and some that are not.
pub(crate) fn joined(inputs: &[&DatasetProperties], mixed: &'static str) -> Option<Files> {
    let file_lists: Vec<&Files> = inputs
        .iter()
        .filter_map(|input| input.files.as_ref())
        .collect();
    Some(Files {
        count: file_lists.iter().map(|files| files.count).sum(),
        names: agreement(
            &file_lists
                .iter()
                .map(|files| files.names)
                .collect::<Vec<_>>(),
        ),
        first: file_lists.first()?.first.clone(),
        rows: None,
        whole: file_lists
            .iter()
            .find_map(|files| files.whole)
            .or_else(|| (file_lists.len() < inputs.len()).then_some(mixed)),
    })
}

impl DatasetProperties {
    /// The number of rows a full batch has, if that is known.
    pub(crate) fn rows_of_batches(&self) -> Option<usize> {
        self.batch_size().or_else(|| self.files.as_ref()?.rows)
    }

    /// Records how many rows a batch has, if the elements are made of files.
    pub(crate) fn set_file_rows(&mut self, rows: Option<usize>) {
        if let Some(files) = &mut self.files {
            files.rows = rows;
        }
    }

    /// The files of the pipeline, and how many rows a full batch has, if each of `ranks` ranks can
    /// have some files.
    ///
    /// INVALID_ARGUMENT if they cannot. The message says why.
    pub(crate) fn files_for(&self, ranks: usize) -> Result<(&Files, usize)> {
        let refused = |problem: String| {
            invalid!(
                "sharding",
                "files are to be dealt out to ranks, and {problem}"
            )
        };
        let advice = "or have batches split over the ranks";
        let files = self.files.as_ref().ok_or_else(|| {
            refused(format!(
                "the dataset is not made of files; make it of a list of files and a function that \
                 opens one, {advice}"
            ))
        })?;
        if let Some(why) = files.whole {
            return Err(refused(format!(
                "the pipeline has {why} behind them, which needs the elements of all files; do \
                 that in the function that opens a file, {advice}"
            )));
        }
        let count = files.count;
        if count < ranks {
            return Err(refused(format!(
                "there are fewer files ({count}) than ranks ({ranks}); write the data to as many \
                 files as there are ranks, or more, {advice}"
            )));
        }
        let rows = self.rows_of_batches().ok_or_else(|| {
            refused(format!(
                "it is not known how many rows a batch has, of which each rank reads its part; \
                 batch the elements of the files, {advice}"
            ))
        })?;
        Ok((files, rows))
    }
}
