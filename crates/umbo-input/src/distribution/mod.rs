//! Distribution of datasets over the replicas of a strategy.

pub(crate) mod batched;
pub(crate) mod input_context;
pub(crate) mod local_replicas;
pub(crate) mod options;
pub(crate) mod rank_synchronized;
pub(crate) mod round_robin;
pub(crate) mod sample;
pub(crate) mod split;

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::Dataset;
use crate::distribution::batched::check_batches;
use crate::distribution::input_context::InputContext;
use crate::distribution::local_replicas::LocalReplicas;
use crate::distribution::options::{DistributeOptions, Sharding, Splitting};
use crate::distribution::rank_synchronized::{RankGroup, RankSynchronizedPass};
use crate::distribution::round_robin::Deal;
use crate::distribution::split::{Shares, Split, part_spec};
use crate::elements::spec::ElementSpec;
use crate::passes::batch_counter::BatchCounter;
use crate::passes::gathered;
use crate::passes::iterator::{ElementsFor, PassIterator};
use crate::passes::position::Description;
use crate::passes::signature::Signature;
use crate::passes::{IteratorStage, Pipeline};
use crate::properties::Files;
use crate::sources::file_shares::FileShare;
use crate::transforms::batch_parameters::BatchParameters;
use crate::transforms::prefetch::ahead;
use umbo_base::error::{Error, Result};
use umbo_base::observe::log::{self, Level};
use umbo_device::DeviceId;
use umbo_strategy::Strategy;
use umbo_strategy::ranks::Ranks;
use umbo_tensor::values::Value;

/// In how many steps of each pass ranks compare rows, unless the options or the dataset say
/// otherwise.
const COMPARED_STEPS: u64 = 16;

/// Distributes the elements of `dataset`, which are global batches, over `replicas` replicas on
/// `devices`. Replica k is on the k-th of them.
///
/// The elements are the same for any number of replicas, and so are positions in them. With one
/// replica, they stay as they are. With more, each tensor of an element becomes a per-replica
/// value. Its rows are split in order, as `options` says. Component k is the part of replica k.
/// Parts may be empty; they keep dtype and rank. The tensors of one element may differ in their
/// number of rows; each is split by its own number. Parts are views of the batch, so nothing is
/// copied except parts of replicas on GPUs. Each tensor stores how many examples it holds
/// ([`Tensor::examples`](umbo_tensor::Tensor::examples)). Component k is on device k. All CPUs
/// share one memory.
///
/// INVALID_ARGUMENT: no replicas; another number of devices; with several replicas, an element with
/// a scalar, which cannot be split; options that contradict each other; in a strict process,
/// elements that were batched twice or, with several replicas, never. UNIMPLEMENTED: replication
/// per replica. NOT_FOUND, UNAVAILABLE: a GPU that does not exist or cannot be used.
pub fn distribute(
    dataset: &Dataset,
    replicas: usize,
    devices: &[DeviceId],
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    check_devices(replicas, devices)?;
    distribute_to(dataset, LocalReplicas::of(devices), options, false)
}

/// Distributes as [`distribute`] does. For a strict strategy, warnings become errors.
fn distribute_to(
    dataset: &Dataset,
    replicas: LocalReplicas,
    options: &DistributeOptions,
    is_strict: bool,
) -> Result<DistributedDataset> {
    let all = replicas.all;
    check_batches(dataset.properties(), all, is_strict)?;
    let full = dataset
        .properties()
        .batch_size()
        .filter(|_| options.splitting == Splitting::Balanced);
    let batches = match full.filter(|_| options.drop_partial_step) {
        Some(rows) => dataset.full_batches(rows)?,
        None => dataset.clone(),
    };
    let spec = match all {
        1 => batches.element_spec().clone(),
        _ => batches
            .element_spec()
            .map(&mut |leaf| Ok(replicas.spec(part_spec(leaf, all)?)))?,
    };
    let shares = match options.splitting {
        Splitting::Ceiling => Shares::Ceiling,
        Splitting::Balanced => Shares::Balanced { full },
    };
    let cardinality = batches.cardinality();
    DistributedDataset::new(
        batches,
        spec,
        cardinality,
        DistributionMode::Split(shares),
        replicas,
        options,
    )
}

/// Distributes as [`distribute`] does, over the replicas of `strategy` on its compute devices.
/// Iterators then belong to the strategy: see [`PassIterator::next`].
///
/// INVALID_ARGUMENT also if files are to be dealt to ranks and the dataset is not made of files,
/// has fewer files than there are ranks, or has operations for which shares of its files do not
/// make shares of its elements. In a strict strategy it is INVALID_ARGUMENT if elements were
/// batched twice or, with several replicas, never.
pub fn distribute_dataset(
    strategy: &Strategy,
    dataset: &Dataset,
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    let is_strict = strategy.is_strict();
    let ranks = strategy.ranks();
    match options.sharding {
        // The check is made with one rank too, so that a program finds the error before it runs
        // with several.
        Sharding::File if ranks.is_alone() => drop(dataset.properties().files_for(1)?),
        _ if ranks.is_alone() => {}
        Sharding::Data => {}
        Sharding::Off => {
            let replicas = LocalReplicas::of(strategy.replica_devices());
            let distributed = distribute_to(dataset, replicas, options, is_strict)?;
            return distributed.rank_synchronized(strategy, RankGroup::new(ranks, options));
        }
        Sharding::File => {
            let (files, shares) = files_of_ranks(dataset, ranks)?;
            return distribute_files(strategy, ranks, dataset, files, &shares, options);
        }
        Sharding::Auto => match files_of_ranks(dataset, ranks) {
            Ok((files, shares)) => {
                return distribute_files(strategy, ranks, dataset, files, &shares, options);
            }
            Err(reason) if dataset.properties().files.is_some() => log::log(Level::Info, || {
                format!("batches are split over the ranks, of which each reads all files: {reason}")
            }),
            Err(_) => {}
        },
    }
    let replicas = LocalReplicas::of_strategy(strategy);
    Ok(distribute_to(dataset, replicas, options, is_strict)?.for_strategy(strategy))
}

/// The files of the dataset, and the share of a batch of each replica of all ranks. Fails if the
/// ranks cannot read separate files. All ranks come to the same result.
fn files_of_ranks<'a>(dataset: &'a Dataset, ranks: &Ranks) -> Result<(&'a Files, Vec<i64>)> {
    let (files, rows) = dataset.properties().files_for(ranks.size())?;
    let shares = balanced_sizes(rows, ranks.num_replicas());
    let mut remaining = shares.as_slice();
    for (rank, &replicas) in ranks.replicas().iter().enumerate() {
        let (shares_of_rank, following) = remaining.split_at(replicas);
        remaining = following;
        if shares_of_rank.iter().all(|&share| share == 0) {
            let all = ranks.num_replicas();
            return Err(invalid!(
                "sharding",
                "files are to be dealt out to ranks, and batches of {rows} rows have none for \
                 rank {rank}, which would never read its files; batches have {all} rows or more, \
                 one for each replica"
            ));
        }
    }
    Ok((files, shares))
}

/// Distributes this rank's share of the files. Its replicas get their shares of a batch from these
/// files.
fn distribute_files(
    strategy: &Strategy,
    ranks: &Arc<Ranks>,
    dataset: &Dataset,
    files: &Files,
    shares: &[i64],
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    let replicas = strategy.num_replicas();
    let first = ranks.first_replica();
    let mut share = FileShare::new(ranks.size(), ranks.rank());
    let own_share = dataset.share_of_files(&mut share)?;
    let own_share =
        own_share.rebatch(&shares[first..first + replicas], options.drop_partial_step)?;
    let distributed =
        distribute_per_replica_batches(&own_share, replicas, strategy.replica_devices(), options)?;
    distributed.rank_synchronized(strategy, RankGroup::new(ranks, options).reading(files))
}

/// The replicas' shares of a batch of `rows` rows. The larger shares come first.
fn balanced_sizes(rows: usize, replicas: usize) -> Vec<i64> {
    let shares =
        (0..replicas).map(|replica| Shares::Balanced { full: None }.part(rows, replica, replicas));
    shares.map(|(start, stop)| (stop - start) as i64).collect()
}

/// Distributes a dataset each of whose elements is for one replica: in step s, replica k gets
/// element s·n + k, where n is the number of replicas. Nothing is split, and elements may be
/// scalars. If elements are missing for the last step, it is completed with components without
/// rows, or with zeros for scalars; `options` can drop this step instead. With one replica,
/// elements stay as they are.
///
/// INVALID_ARGUMENT, UNIMPLEMENTED: as for [`distribute`].
pub fn distribute_per_replica_batches(
    dataset: &Dataset,
    replicas: usize,
    devices: &[DeviceId],
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    check_devices(replicas, devices)?;
    let drop_partial_step = options.drop_partial_step;
    let step = BatchParameters::of(replicas, drop_partial_step);
    let cardinality = dataset.cardinality().map(|count| step.batches(count));
    let complete = drop_partial_step
        || replicas == 1
        || match dataset.cardinality() {
            Cardinality::Exact(count) => count % replicas as u64 == 0,
            Cardinality::Endless => true,
            Cardinality::EndlessUnlessEmpty | Cardinality::Unknown => false,
        };
    let way = match replicas {
        1 => DistributionMode::Split(Shares::Ceiling),
        _ => DistributionMode::Deal { drop_partial_step },
    };
    let replicas = LocalReplicas::of(devices);
    let spec = dataset.element_spec().map(&mut |leaf| {
        let leaf = if complete {
            leaf.clone()
        } else {
            leaf.with_rows(None)
        };
        Ok(replicas.spec(leaf))
    })?;
    DistributedDataset::new(dataset.clone(), spec, cardinality, way, replicas, options)
}

/// Calls `function` to make a dataset for the replicas of `strategy`, and deals its elements as
/// [`distribute_per_replica_batches`] does.
///
/// The function is called once, on this thread, before this function returns: one pipeline serves
/// all replicas. Its dataset is batched for one replica (see
/// [`InputContext::per_replica_batch_size`]), and no operation is added to it. An error of the
/// function is returned unchanged.
pub fn distribute_datasets_from_function(
    strategy: &Strategy,
    function: impl FnOnce(&InputContext) -> Result<Dataset>,
    options: &DistributeOptions,
) -> Result<DistributedDataset> {
    let replicas = strategy.num_replicas();
    let devices = strategy.replica_devices();
    options.check(devices)?;
    let in_sync = strategy.num_replicas_in_sync();
    let context = InputContext {
        num_input_pipelines: i64::try_from(strategy.ranks().size()).unwrap_or(i64::MAX),
        input_pipeline_id: i32::try_from(strategy.rank()).unwrap_or(i32::MAX),
        num_replicas_in_sync: i64::try_from(in_sync).unwrap_or(i64::MAX),
    };
    let distributed =
        distribute_per_replica_batches(&function(&context)?, replicas, devices, options)?;
    match strategy.ranks() {
        ranks if ranks.is_alone() => Ok(distributed.for_strategy(strategy)),
        ranks => distributed.rank_synchronized(strategy, RankGroup::new(ranks, options)),
    }
}

fn check_devices(replicas: usize, devices: &[DeviceId]) -> Result<()> {
    if replicas > 0 && devices.len() == replicas {
        return Ok(());
    }
    let count = devices.len();
    let problem = format!("{count} devices for {replicas} replicas; each replica has one");
    Err(Error::invalid("devices", problem))
}

/// A dataset whose elements are split over replicas. Cloning makes another reference.
#[derive(Clone, Debug)]
pub struct DistributedDataset {
    dataset: Dataset,
    spec: ElementSpec,
    cardinality: Cardinality,
    way: DistributionMode,
    replicas: LocalReplicas,
    read_ahead: usize,
    /// The number of steps of each pass in which ranks that read the same data compare rows, too.
    compared_steps: u64,
    /// The strategy whose replicas get the elements, if it is known.
    strategy: Option<ElementsFor>,
    /// The ranks that take elements together. Each has its own dataset.
    ranks: Option<RankGroup>,
}

#[derive(Clone, Copy, Debug)]
enum DistributionMode {
    /// Each element is split over all replicas, which get such shares.
    Split(Shares),
    /// Each replica gets an element of its own.
    Deal { drop_partial_step: bool },
}

impl DistributedDataset {
    /// A distributed dataset whose components are on the devices of `replicas`, or on CPU:0, as
    /// `options` say.
    fn new(
        dataset: Dataset,
        spec: ElementSpec,
        cardinality: Cardinality,
        way: DistributionMode,
        replicas: LocalReplicas,
        options: &DistributeOptions,
    ) -> Result<DistributedDataset> {
        let (devices, read_ahead) = options.check(&replicas.devices)?;
        let replicas = LocalReplicas {
            devices,
            ..replicas
        };
        let suitable = if dataset.properties().has_functions {
            0
        } else {
            COMPARED_STEPS
        };
        let compared_steps = options.compared_steps.unwrap_or(suitable);
        Ok(DistributedDataset {
            dataset,
            spec,
            cardinality,
            way,
            replicas,
            read_ahead,
            compared_steps,
            strategy: None,
            ranks: None,
        })
    }

    /// The same dataset, for the replicas of `strategy`.
    fn for_strategy(self, strategy: &Strategy) -> DistributedDataset {
        let strategy = ElementsFor {
            id: strategy.id(),
            is_strict: strategy.is_strict(),
        };
        DistributedDataset {
            strategy: Some(strategy),
            ..self
        }
    }

    /// The structure of the elements. The number of rows is known if it is known of the batch and
    /// divides evenly.
    pub fn element_spec(&self) -> &ElementSpec {
        &self.spec
    }

    /// The same dataset, if it is this rank's own and the ranks of `group` take their elements
    /// together.
    fn rank_synchronized(
        self,
        strategy: &Strategy,
        group: RankGroup,
    ) -> Result<DistributedDataset> {
        // A rank whose dataset has ended gets elements without rows.
        let spec = self
            .spec
            .map(&mut |leaf| Ok(self.replicas.spec(leaf.with_rows(None))))?;
        // The pass continues as long as that of any rank.
        let cardinality = self.cardinality.of_unknown_end();
        let ranks = Some(group);
        Ok(DistributedDataset {
            spec,
            cardinality,
            ranks,
            ..self.for_strategy(strategy)
        })
    }

    /// The number of elements one pass yields.
    pub fn cardinality(&self) -> Cardinality {
        self.cardinality
    }

    /// Over how many replicas the elements are split.
    pub fn replicas(&self) -> usize {
        self.replicas.devices.len()
    }

    /// An iterator at the beginning of a new pass, independent of all others, as with
    /// [`Dataset::iterator`].
    pub fn iterator(&self) -> Result<PassIterator> {
        let spec = self.element_spec().clone();
        let spans_ranks = self.ranks.is_some();
        PassIterator::new(
            Arc::new(self.clone()),
            spec,
            self.cardinality,
            self.strategy,
            spans_ranks,
        )
    }
}

impl Pipeline for DistributedDataset {
    fn start(&self) -> Result<Box<dyn IteratorStage<Value>>> {
        let input = self.dataset.start()?;
        let spec = &self.spec;
        let replicas = &self.replicas;
        // Ranks compare their pipelines only if they read the same data.
        let compared = replicas.among_ranks.then(|| self.description());
        let numbering = BatchCounter::new(compared.as_ref(), self.compared_steps);
        let pass = match self.way {
            DistributionMode::Split(shares) => {
                let split = Split::new(spec, replicas, shares);
                gathered::start(BatchParameters::of(1, false), spec, numbering, split, input)
            }
            DistributionMode::Deal { drop_partial_step } => {
                let deal = Deal::new(spec, replicas)?;
                let batch = BatchParameters::of(replicas.all, drop_partial_step);
                gathered::start(batch, spec, numbering, deal, input)
            }
        };
        let pass = ahead(pass, self.read_ahead, self.cardinality)?;
        // The ranks communicate on the thread that requests the element.
        Ok(match &self.ranks {
            None => pass,
            Some(group) => {
                let spec = spec.clone();
                let devices = Arc::clone(&replicas.devices);
                Box::new(RankSynchronizedPass::new(
                    group.clone(),
                    spec,
                    devices,
                    pass,
                ))
            }
        })
    }

    fn describe(&self, to: &mut Description) {
        to.stage(match self.way {
            // The batches are the same for any number of replicas.
            DistributionMode::Split(_) => Signature::new("split"),
            DistributionMode::Deal { drop_partial_step } => Signature::new("per_replica_batches")
                .with("replicas", self.replicas.all)
                .with("drop_partial_step", drop_partial_step),
        });
        self.dataset.describe(to);
    }
}
