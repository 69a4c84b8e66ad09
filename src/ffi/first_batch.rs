//! What UMBO_CHECK=1 needs to know of programs that write their own loop: which element a pass has
//! begun with, and which gradients a strategy has. Without the variable nothing is noted.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::equivalence;
use crate::error::Result;
use crate::input::PassIterator;
use crate::observe::switch::CHECK;
use crate::optimizer::Gradients;
use crate::strategy::{FunctionFor, Strategy};
use crate::values::Value;
use parking_lot::Mutex;

struct NotedElement {
    /// By the id of their strategy: elements with which passes have begun, and that no run has got yet.
    elements: BTreeMap<u64, Value>,
    gradients: Vec<Weak<Gradients>>,
}

static NOTED: Mutex<NotedElement> =
    Mutex::new(NotedElement { elements: BTreeMap::new(), gradients: Vec::new() });

/// A program has made gradients.
pub(super) fn note_gradients(gradients: &Arc<Gradients>) {
    if CHECK.is_on() {
        let mut noted = NOTED.lock();
        noted.gradients.retain(|known| known.strong_count() > 0);
        noted.gradients.push(Arc::downgrade(gradients));
    }
}

/// The next element for a program that runs its steps itself.
pub(super) fn next_noted(iterator: &PassIterator) -> Result<Option<Value>> {
    let Some(element) = iterator.next()? else { return Ok(None) };
    if CHECK.is_on()
        && let Some(strategy) = iterator.distributed_for()
        && iterator.begins()
    {
        iterator.note_begun();
        let before = NOTED.lock().elements.insert(strategy, element.clone());
        drop(before);
    }
    Ok(Some(element))
}

/// Checks a step that is about to be run, if asked for, and if its arguments begin a pass.
pub(super) fn check_run(
    strategy: &Strategy,
    function: &FunctionFor<'_>,
    args: Option<&Value>,
) -> Result<()> {
    let Some(args) = args.filter(|_| CHECK.is_on()) else { return Ok(()) };
    let mut noted = NOTED.lock();
    let begins = noted.elements.get(&strategy.id()).is_some_and(|element| element.is_same(args));
    let element = begins.then(|| noted.elements.remove(&strategy.id())).flatten();
    let Some(element) = element else { return Ok(()) };
    let gradients: Vec<_> = noted.gradients.iter().filter_map(Weak::upgrade).collect();
    drop(noted);
    let of_strategy = |gradients: &&Arc<Gradients>| gradients.strategy() == strategy.id();
    let checked = match *gradients.iter().filter(of_strategy).collect::<Vec<_>>() {
        [] => equivalence::check_first(strategy, function, args, None),
        [gradients] => equivalence::check_first(strategy, function, args, Some(gradients)),
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
        NOTED.lock().elements.insert(strategy.id(), element);
    }
    checked
}
