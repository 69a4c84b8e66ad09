//! The registry for UMBO_CHECK_STEPS=1 in programs that write their own loop: which element a pass
//! has begun with, which callbacks were checked, and which gradients a strategy has. Without the
//! variable nothing is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use umbo_core::equivalence::{self, OwnedCallback};
use umbo_core::error::Result;
use umbo_core::input::PassIterator;
use umbo_core::observe::switch::CHECK;
use umbo_core::optimizer::Gradients;
use umbo_core::strategy::Strategy;
use umbo_core::strategy::step::limits::Limits;
use umbo_core::values::{BatchContents, Value};

struct FirstBatchRegistry {
    /// By the id of their strategy: elements with which passes have begun, and that no run has got
    /// yet.
    elements: BTreeMap<u64, Value>,
    /// Callbacks that were checked on a batch, with the ids of their strategies.
    checked: BTreeSet<(u64, usize)>,
    gradients: Vec<Weak<Gradients>>,
}

static FIRST_BATCH: Mutex<FirstBatchRegistry> = Mutex::new(FirstBatchRegistry {
    elements: BTreeMap::new(),
    checked: BTreeSet::new(),
    gradients: Vec::new(),
});

/// A program has made gradients.
pub(crate) fn record_gradients(gradients: &Arc<Gradients>) {
    if CHECK.is_on() {
        let mut noted = FIRST_BATCH.lock();
        noted.gradients.retain(|known| known.strong_count() > 0);
        noted.gradients.push(Arc::downgrade(gradients));
    }
}

/// The next element for a program that runs its steps itself.
pub(crate) fn next_noted(iterator: &PassIterator) -> Result<Option<Value>> {
    let Some(element) = iterator.next()? else {
        return Ok(None);
    };
    if CHECK.is_on()
        && let Some(strategy) = iterator.distributed_for()
        && iterator.begins()
    {
        iterator.record_begun();
        let before = FIRST_BATCH
            .lock()
            .elements
            .insert(strategy, element.clone());
        drop(before);
    }
    Ok(Some(element))
}

/// Checks a step that is about to be run, if asked for, and if its arguments begin a pass or are
/// the first batch that the callback gets, as those of [`split_for`](umbo_core::input::split_for)
/// are. `address` is that of the program's function, of which `callback` is a call. The time that
/// the check takes is added to the deadline in `limits`.
pub(crate) fn check_run(
    strategy: &Strategy,
    callback: &OwnedCallback,
    limits: &mut Limits,
    address: usize,
    args: Option<&Value>,
) -> Result<()> {
    let Some(args) = args else {
        return Ok(());
    };
    let mut noted = FIRST_BATCH.lock();
    let begins = noted
        .elements
        .get(&strategy.id())
        .is_some_and(|element| element.is_same(args));
    let element = begins
        .then(|| noted.elements.remove(&strategy.id()))
        .flatten();
    let key = (strategy.id(), address);
    if element.is_none() {
        let contents = args.batch_contents();
        if contents == BatchContents::None || noted.checked.contains(&key) {
            return Ok(());
        }
        if contents == BatchContents::Some {
            drop(noted);
            equivalence::not_checked(
                strategy,
                "the arguments of a run hold a batch inside of other values, which the check \
                 cannot split; give umbo_strategy_run() the batch alone and the rest through \
                 user_data, or call umbo_strategy_check_equivalence()",
            );
            return Ok(());
        }
    }
    noted.checked.insert(key);
    let gradients: Vec<_> = noted.gradients.iter().filter_map(Weak::upgrade).collect();
    drop(noted);
    let of_strategy = |gradients: &&Arc<Gradients>| gradients.strategy() == strategy.id();
    let checked = match *gradients.iter().filter(of_strategy).collect::<Vec<_>>() {
        [] => equivalence::check_first(strategy, callback, limits, args, None),
        [gradients] => equivalence::check_first(strategy, callback, limits, args, Some(gradients)),
        ref several => {
            let why = format!(
                "the strategy has {} umbo_gradients, and a run does not say which of them its \
                 callback writes; call umbo_strategy_check_equivalence()",
                several.len()
            );
            equivalence::not_checked(strategy, &why);
            Ok(())
        }
    };
    if checked.is_err() {
        // A run of the same step again says it again.
        let mut noted = FIRST_BATCH.lock();
        noted.checked.remove(&key);
        if let Some(element) = element {
            noted.elements.insert(strategy.id(), element);
        }
    }
    checked
}
