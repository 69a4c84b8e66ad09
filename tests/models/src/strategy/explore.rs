//! The protocol under loom, which runs each model in every order that the memory model
//! allows. What replicas and coordinator leave for each other are relaxed atomics here: a reader
//! that is not ordered after the writer may see an old value, and the assertion fails.

use loom::thread;

/// A thread of a model.
pub type Body = Box<dyn FnOnce() + Send>;

/// Runs the threads that `model` makes in every order with at most so many preemptions. The
/// threads do not join each other: loom cannot wake a thread that joins, as a late `notify` may.
pub fn explore(preemptions: usize, model: impl Fn() -> Vec<Body> + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let threads: Vec<_> = model().into_iter().map(thread::spawn).collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// So many preemptions, or one fewer where the models are a part of all tests (`MODELS=all` is
/// `make test-loom`): for models that take a quarter of a minute.
pub fn long(preemptions: usize) -> usize {
    let all = std::env::var_os("MODELS").is_some_and(|models| models == "all");
    if all { preemptions } else { preemptions - 1 }
}
