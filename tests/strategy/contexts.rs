//! Scopes and contexts.

use umbo_core::strategy::context::set_strategy;

use crate::*;

#[test]
fn contexts_nest_strictly_and_are_of_their_thread() {
    let s = strategy(2);
    let t = strategy(2);
    assert!(matches!(current(), Current::Default));
    let outer = s.enter_scope().unwrap();
    let inner = s.enter_scope().unwrap();
    refused(outer.exit(), Status::FailedPrecondition, &["innermost"]);
    refused(t.enter_scope(), Status::FailedPrecondition, &["mixing"]);
    refused(
        t.run(&|_| Ok(None), None),
        Status::FailedPrecondition,
        &["mixing"],
    );
    refused(
        set_strategy(None),
        Status::FailedPrecondition,
        &["inside of a scope"],
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(current(), Current::Default));
            refused(inner.exit(), Status::FailedPrecondition, &["thread"]);
        });
    });
    drop(inner.exit().unwrap());
    refused(inner.exit(), Status::NotFound, &["left already"]);
    drop(outer.exit().unwrap());
    assert!(matches!(current(), Current::Default));
    set_strategy(Some(s.clone())).unwrap();
    assert!(matches!(current(), Current::CrossReplica(current) if current.is_same(&s)));
    set_strategy(None).unwrap();
    let error = s.run(
        &|_| {
            s.enter_scope()?;
            Ok(None)
        },
        None,
    );
    refused(
        error,
        Status::FailedPrecondition,
        &["cross-replica", "replica 0", "replica 1"],
    );
    let error = s.run(&|_| s.run(&|_| Ok(None), None), None);
    refused(
        error,
        Status::FailedPrecondition,
        &["requires being in cross-replica context"],
    );
}
