//! The variable creators that apply to a strategy, from the contexts that a thread is in.

use std::ops::ControlFlow;

/// A walk over the contexts of a thread, from the innermost outwards, which collects the creators
/// `C` that count for the variables of one strategy.
pub(super) struct CreatorWalk<C> {
    /// The creators so far, innermost first.
    creators: Vec<C>,
    /// The number of these creators inside of the strategy's outermost context so far.
    inside: usize,
    /// The number of creators inside of the merge call that the walk came from, until it reaches
    /// the callback around that.
    in_merge_call: Option<usize>,
}

impl<C> CreatorWalk<C> {
    /// A walk that begins at the innermost context.
    pub(super) fn new() -> CreatorWalk<C> {
        CreatorWalk {
            creators: Vec::new(),
            inside: 0,
            in_merge_call: None,
        }
    }

    /// The next context outwards is the scope of a creator.
    pub(super) fn creator(&mut self, creator: C) -> ControlFlow<()> {
        self.creators.push(creator);
        ControlFlow::Continue(())
    }

    /// The next context outwards is a scope, `is_own` if it is of the walk's strategy.
    pub(super) fn scope(&mut self, is_own: bool) -> ControlFlow<()> {
        if is_own {
            self.inside = self.creators.len();
        }
        ControlFlow::Continue(())
    }

    /// The next context outwards is a merge call or an update.
    pub(super) fn merge_call(&mut self, is_own: bool) -> ControlFlow<()> {
        self.in_merge_call = Some(self.creators.len());
        self.scope(is_own)
    }

    /// The next context outwards is a replica's callback. Its creators count for the callback
    /// itself, and the walk ends there: a run takes those around it along. A merge call runs on
    /// this replica's thread by chance, so the callback's creators do not count for that.
    pub(super) fn replica(&mut self, is_own: bool) -> ControlFlow<()> {
        match self.in_merge_call.take() {
            Some(count) => {
                self.creators.truncate(count);
                self.scope(is_own)
            }
            None => {
                self.inside = self.creators.len();
                ControlFlow::Break(())
            }
        }
    }

    /// The creators that run before the strategy's own, and those that run after it. With
    /// `is_around` the strategy is current outside of all contexts, too.
    pub(super) fn end(mut self, is_around: bool) -> (Vec<C>, Vec<C>) {
        if is_around {
            self.inside = self.creators.len();
        }
        let after = self.creators.split_off(self.inside);
        (self.creators, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context of a thread; the flag says whether it is of the walk's strategy.
    enum Context {
        Creator(&'static str),
        Scope(bool),
        MergeCall(bool),
        Replica(bool),
    }
    use Context::*;

    const OWN: bool = true;
    const OTHER: bool = false;

    /// The creators before and after the strategy's own. `contexts` are in the order in which they
    /// were entered.
    fn walked(contexts: &[Context], is_around: bool) -> [String; 2] {
        let mut walk = CreatorWalk::new();
        for context in contexts.iter().rev() {
            let next = match context {
                Creator(name) => walk.creator(*name),
                Scope(is_own) => walk.scope(*is_own),
                MergeCall(is_own) => walk.merge_call(*is_own),
                Replica(is_own) => walk.replica(*is_own),
            };
            if next.is_break() {
                break;
            }
        }
        let (before, after) = walk.end(is_around);
        [before.join(" "), after.join(" ")]
    }

    #[test]
    fn creators_run_from_the_innermost_outwards() {
        let contexts = [Creator("a"), Creator("b")];
        assert_eq!(walked(&contexts, false), ["", "b a"]);
        assert_eq!(walked(&contexts, true), ["b a", ""]);
        assert_eq!(walked(&[], false), ["", ""]);
    }

    #[test]
    fn the_strategy_comes_where_its_outermost_scope_was_entered() {
        let contexts = [
            Creator("a"),
            Scope(OWN),
            Creator("b"),
            Scope(OWN),
            Creator("c"),
        ];
        assert_eq!(walked(&contexts, false), ["c b", "a"]);
        let contexts = [Creator("a"), Scope(OTHER), Creator("b")];
        assert_eq!(walked(&contexts, false), ["", "b a"]);
    }

    #[test]
    fn a_callback_has_its_own_creators_before_the_strategy() {
        // The run takes along what is around it, so that a callback's walk ends at the callback.
        let contexts = [Creator("a"), Scope(OWN), Replica(OWN), Creator("b")];
        assert_eq!(walked(&contexts, false), ["b", ""]);
        let contexts = [Creator("a"), Replica(OTHER), Creator("b")];
        assert_eq!(walked(&contexts, false), ["b", ""]);
    }

    #[test]
    fn a_merge_call_does_not_see_the_creators_of_the_callback_that_it_interrupts() {
        let contexts = [
            Creator("a"),
            Scope(OWN),
            Creator("b"),
            Replica(OWN),
            Creator("c"),
            MergeCall(OWN),
            Creator("d"),
        ];
        assert_eq!(walked(&contexts, false), ["d b", "a"]);
    }

    #[test]
    fn a_nested_run_in_a_merge_call_ends_the_walk_at_its_own_callback() {
        let contexts = [
            Scope(OWN),
            Replica(OWN),
            Creator("a"),
            MergeCall(OWN),
            Creator("b"),
            Replica(OWN),
            Creator("c"),
        ];
        assert_eq!(walked(&contexts, false), ["c", ""]);
    }

    #[test]
    fn an_update_outside_of_runs_is_a_context_of_the_strategy() {
        let contexts = [Creator("a"), MergeCall(OWN), Creator("b")];
        assert_eq!(walked(&contexts, false), ["b", "a"]);
    }
}
