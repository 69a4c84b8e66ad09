//! Files as a source. A function of the caller makes a dataset of each file, whose elements follow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::arguments::in_range;
use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::spec::ElementSpec;
use crate::passes::given::Given;
use crate::passes::pending_item::PendingItem;
use crate::passes::position::{Description, Rounds, StateReader, StateWriter, unfit};
use crate::passes::signature::{self, Signature};
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::{DatasetProperties, Files};
use crate::sources::file_shares::FileShare;
use crate::sources::slices;
use crate::transforms::reorder::Reorder;
use crate::transforms::shuffle::Shuffle;
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result, memory};
use umbo_strategy::ranks::agreement;
use umbo_system::names;
use umbo_tensor::values::Value;

/// The largest number of files that are read in turn.
const MAX_AT_ONCE: i64 = 4096;

/// A dataset of files counts as this many transformations. The datasets of single files may have
/// one fewer than this, since they are not known when the pipeline is built.
const DEPTH: usize = 128;

/// How files are read. By default they are read one after the other, in the order of the list.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// The specification of the elements of all files. Without it, they look like those of the
    /// first file, which is opened to find out.
    pub element_spec: Option<ElementSpec>,
    /// The number of files from which elements come in turn.
    pub files_at_once: i64,
    /// The number of elements that come from one file before the next file's turn.
    pub elements_in_turn: i64,
    /// The seed of random orders of the files. Each pass and each round has its own order. Without
    /// a seed, files are read in the order of the list.
    pub shuffle_files: Option<u64>,
}

impl Default for FilesOptions {
    fn default() -> FilesOptions {
        FilesOptions {
            element_spec: None,
            files_at_once: 1,
            elements_in_turn: 1,
            shuffle_files: None,
        }
    }
}

/// A file to read.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its index in the list of files.
    pub number: usize,
    /// Its path, as the caller passed it.
    pub path: &'a Path,
}

type OpenFunction = Arc<dyn Fn(File<'_>) -> Result<Dataset> + Send + Sync>;

impl Dataset {
    /// The elements of the datasets that `open` makes of the files at `paths`. Only the function
    /// interprets a path.
    ///
    /// A file is opened when its first element is requested, and again in each pass and each round.
    /// It is closed when its dataset has ended. So a shuffle in the dataset of one file has the
    /// same order in each round, and a shuffle of the dataset of all files does not. If ranks
    /// read separate files ([`Sharding::File`](crate::Sharding::File)), only one rank opens
    /// file i.
    ///
    /// If a file cannot be opened, the request for its first element fails, and the file is left
    /// out. After RESOURCE_EXHAUSTED it is opened again instead. INVALID_ARGUMENT: no files,
    /// numbers below 1, more than 4096 files at once, a spec without tensors. While iterating,
    /// INVALID_ARGUMENT: elements that do not match the spec, and a dataset of a file with more
    /// than 127 transformations; a dataset of files counts as 128.
    pub fn from_files(
        paths: &[impl AsRef<Path>],
        open: impl Fn(File<'_>) -> Result<Dataset> + Send + Sync + 'static,
        options: FilesOptions,
    ) -> Result<Dataset> {
        if paths.is_empty() {
            return Err(invalid!(
                "paths",
                "none; a dataset of files has one or more"
            ));
        }
        let FilesOptions {
            element_spec,
            files_at_once,
            elements_in_turn,
            shuffle_files,
        } = options;
        let range = format_args!("between 1 and {MAX_AT_ONCE}");
        let at_once = in_range("open_file_count", files_at_once, 1..=MAX_AT_ONCE, range)?;
        let in_turn = in_range("consecutive_count", elements_in_turn, 1.., "1 or more")?;
        let source = FileSource {
            paths: paths.iter().map(|path| path.as_ref().to_owned()).collect(),
            open: Arc::new(open),
            spec: ElementSpec::tuple(Vec::new())?,
            at_once,
            // With one open file, a turn never has to end.
            in_turn: if at_once == 1 { u64::MAX } else { in_turn },
            shuffle: shuffle_files,
        };
        let spec = match element_spec {
            Some(spec) => spec,
            None => source.dataset(0)?.element_spec().clone(),
        };
        spec.check_describes_elements("element_spec")?;
        let source = Arc::new(FileSource { spec, ..source });
        let selected = Arc::new((0..paths.len()).collect());
        let list = FileList {
            selected,
            share: None,
            order: source.shuffle.map(Shuffle::all),
            source,
        };
        Dataset::of(Arc::new(list), &[])
    }
}

/// The files of a list that are read: all, or some.
#[derive(Clone)]
struct FileList {
    source: Arc<FileSource>,
    /// The indices of the files that are read.
    selected: Arc<Vec<usize>>,
    /// The index of the share that is read and the number of shares, if not the whole list is
    /// read.
    share: Option<(usize, usize)>,
    /// The random order in which the files are opened. Without it, they are opened in the order of
    /// the list.
    order: Option<Shuffle>,
}

/// The list of files, and how they are read.
struct FileSource {
    paths: Vec<PathBuf>,
    open: OpenFunction,
    spec: ElementSpec,
    at_once: usize,
    in_turn: u64,
    shuffle: Option<u64>,
}

impl FileSource {
    /// The dataset that the function makes of the file with index `number`.
    fn dataset(&self, number: usize) -> Result<Dataset> {
        let path = &self.paths[number];
        let dataset = (self.open)(File { number, path })?;
        let depth = dataset.properties().depth;
        if depth >= DEPTH {
            let most = DEPTH - 1;
            return Err(invalid!(
                "dataset",
                "what was made of file {number} ('{}') has {depth} transformations one after \
                 another; at most {most} are possible, a dataset of files is counted as {DEPTH}",
                path.display()
            ));
        }
        Ok(dataset)
    }

    /// The dataset of [`FileSource::dataset`], after a check that its elements can match the spec.
    fn fitting(&self, number: usize) -> Result<Dataset> {
        let dataset = self.dataset(number)?;
        let other = dataset.element_spec();
        self.spec.common(other, &|| {
            invalid!(
                "dataset",
                "the elements of file {number} ('{}') are {other}, and should be {}; structure, \
                 dtypes and ranks are the same in all files",
                self.paths[number].display(),
                self.spec
            )
        })?;
        Ok(dataset)
    }
}

impl Operation for FileList {
    fn properties(&self, _inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let paths = &self.source.paths;
        let bytes: Vec<&[u8]> = paths
            .iter()
            .map(|path| names::bytes(path.as_os_str()))
            .collect();
        let names = agreement(&bytes);
        let first = paths[0].display().to_string().into();
        let files = Files {
            count: paths.len(),
            names,
            first,
            rows: None,
            whole: None,
        };
        let properties = DatasetProperties::source(self.source.spec.clone(), Cardinality::Unknown);
        Ok(DatasetProperties {
            files: Some(files),
            has_functions: true,
            depth: DEPTH,
            ..properties
        })
    }

    fn share(&self, share: &mut FileShare) -> Result<Option<Arc<dyn Operation>>> {
        let mut selected = memory::list(self.selected.len(), "numbers of files")?;
        selected.extend(self.selected.iter().filter(|_| share.has_next()));
        let source = Arc::clone(&self.source);
        let order = source.shuffle.map(Shuffle::all);
        let share = Some(share.place());
        Ok(Some(Arc::new(FileList {
            source,
            selected: Arc::new(selected),
            share,
            order,
        })))
    }

    fn start(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let count = self.selected.len() as u64;
        let numbers = slices::in_order(count);
        let order = match &self.order {
            Some(shuffle) => shuffle.pass(Cardinality::Exact(count), numbers),
            None => numbers,
        };
        let places = self.source.at_once.min(self.selected.len());
        let mut open = memory::list(places, "open files")?;
        open.resize_with(places, || None);
        Ok(Box::new(FilesPass {
            source: Arc::clone(&self.source),
            selected: Arc::clone(&self.selected),
            place: PendingItem::of(&*order),
            order,
            open,
            turn: 0,
            left: self.source.in_turn,
            reserved: 0,
            given: None,
        }))
    }

    fn describe_seed(&self, to: &mut Description) {
        if let Some(shuffle) = &self.order {
            to.stage(Reorder::signature(shuffle));
            Reorder::describe_seed(shuffle, to);
        }
    }

    fn signature(&self, _inputs: usize) -> Signature {
        let source = &*self.source;
        let takes_turns = source.at_once > 1;
        let signature = Signature::new("files")
            .with("files", self.selected.len())
            .with("files_at_once", source.at_once)
            .with("elements_in_turn", takes_turns.then_some(source.in_turn))
            .with("element_spec", &source.spec);
        match self.share {
            None => signature,
            Some((index, shares)) => signature
                .with("share", index)
                .with("shares", shares)
                .with("files_of_all_shares", source.paths.len()),
        }
    }
}

struct FilesPass {
    source: Arc<FileSource>,
    selected: Arc<Vec<usize>>,
    order: Box<dyn IteratorStage<u64>>,
    /// The position of the file to open next, held if there was no memory to open it.
    place: PendingItem<u64>,
    /// The files that are read in turn, each in its place.
    open: Vec<Option<OpenFile>>,
    /// The place whose turn it is; `left` counts the elements that remain of its turn.
    turn: usize,
    left: u64,
    /// The number of additional elements downstream for which the pools have reserved memory.
    reserved: usize,
    /// The time when the elements are given, once an iterator has the pass.
    given: Option<Given>,
}

struct OpenFile {
    /// Its position among the files that are read.
    place: u64,
    /// The checksum of its dataset's signatures, which the description of the whole pipeline
    /// cannot contain.
    pipeline: Crc32,
    pass: Box<dyn IteratorStage<Value>>,
}

impl FilesPass {
    /// Opens the file at position `place` among those that are read.
    fn opened(&self, place: u64) -> Result<OpenFile> {
        let number = self.selected.get(place as usize).copied();
        let number = number.ok_or_else(|| Error::Internal("a file that is not there".into()))?;
        let dataset = self.source.fitting(number)?;
        let description = dataset.description();
        let mut pass = dataset.start()?;
        pass.reserve(self.reserved);
        if let Some(given) = &self.given {
            pass.announce(given);
        }
        Ok(OpenFile {
            place,
            pipeline: signature::checksum(description.stages())?,
            pass,
        })
    }

    /// The file whose turn it is, or none at the end. If its place is free, files are opened for
    /// all free places.
    fn current(&mut self) -> Result<Option<&mut OpenFile>> {
        if self.open.get(self.turn).is_some_and(Option::is_none) {
            while let Some(free) = self.open.iter().position(Option::is_none)
                && let Some(place) = self.place.next(&mut *self.order)?
            {
                // Of a file that is left out nobody knows how many elements it has.
                let file = self.opened(place).map_err(Error::shifting);
                self.open[free] = Some(self.place.hold_if_it_comes_again(place, file)?);
            }
        }
        for _ in 0..self.open.len() {
            if self.open[self.turn].is_some() {
                return Ok(self.open[self.turn].as_mut());
            }
            self.turn = (self.turn + 1) % self.open.len();
        }
        Ok(None)
    }

    fn close_all(&mut self) {
        self.open.fill_with(|| None);
        (self.turn, self.left) = (0, self.source.in_turn);
    }
}

impl IteratorStage<Value> for FilesPass {
    fn next(&mut self) -> Result<Option<Value>> {
        while let Some(file) = self.current()? {
            let element = file.pass.next()?;
            if element.is_none() {
                self.open[self.turn] = None;
                self.left = self.source.in_turn;
                continue;
            }
            self.left -= 1;
            if self.left == 0 {
                self.turn = (self.turn + 1) % self.open.len();
                self.left = self.source.in_turn;
            }
            if let Some(element) = &element {
                self.source.spec.check(element, "an element of a file")?;
            }
            return Ok(element);
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<()> {
        self.close_all();
        self.place.restart(&mut *self.order)
    }

    fn save(&self, to: &mut StateWriter) {
        self.place.save(&*self.order, to);
        to.push(self.turn as u64);
        to.push(self.left);
        for file in &self.open {
            to.push_flag(file.is_some());
            if let Some(file) = file {
                to.push(file.place);
                to.push(u64::from(file.pipeline.0));
                to.nest(|to| file.pass.save(to));
            }
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.close_all();
        self.place.restore(&mut *self.order, from)?;
        self.turn = from.index(self.open.len().saturating_sub(1), "the turn of files")?;
        self.left = from.at_most(self.source.in_turn, "what is left of a turn")?;
        if self.left == 0 {
            return Err(unfit("nothing is left of a turn"));
        }
        for at in 0..self.open.len() {
            if !from.flag()? {
                continue;
            }
            let most = (self.selected.len() as u64).saturating_sub(1);
            let place = from.at_most(most, "the number of a file")?;
            let pipeline = from.number()?;
            let mut file = self.opened(place)?;
            if u64::from(file.pipeline.0) != pipeline {
                let path = self.source.paths[self.selected[place as usize]].display();
                return Err(unfit(&format!(
                    "'{path}' was made another dataset of, or has changed"
                )));
            }
            let mut inner = from.nested()?;
            file.pass.restore(&mut inner)?;
            inner.end()?;
            self.open[at] = Some(file);
        }
        Ok(())
    }

    fn reserve(&mut self, items: usize) {
        self.reserved = self.reserved.saturating_add(items);
        self.open
            .iter_mut()
            .flatten()
            .for_each(|file| file.pass.reserve(items));
    }

    fn rounds(&mut self, to: &mut Rounds) {
        self.place.rounds(&mut *self.order, to);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        self.place.go_back(&mut *self.order, to)
    }

    fn announce(&mut self, given: &Given) {
        self.given = Some(given.clone());
        self.order.announce(given);
        self.open
            .iter_mut()
            .flatten()
            .for_each(|file| file.pass.announce(given));
    }
}
