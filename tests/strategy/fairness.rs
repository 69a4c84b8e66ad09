//! Steps are taken in the order in which threads ask for them. (That the queue itself is in order is
//! tested beside it.)

use crate::*;

/// How a run is asked for.
#[derive(Clone, Copy, Debug)]
enum Asking {
    Plain,
    Deadline,
    Token,
    Assignment,
}

const ALL: [Asking; 4] = [Asking::Plain, Asking::Deadline, Asking::Token, Asking::Assignment];

fn ask(s: &Strategy, v: &Variable, how: Asking) {
    let limits = match how {
        Asking::Plain => Limits::default(),
        Asking::Deadline => {
            let deadline = Some(Instant::now() + Duration::from_secs(600));
            Limits { deadline, ..Limits::default() }
        }
        Asking::Token => Limits { cancellation: Some(Cancellation::new()), ..Limits::default() },
        Asking::Assignment => return assign(v, Assignment::Add, &scalar(1.0)).unwrap(),
    };
    s.run_within(Arc::new(|_| Ok(None)), None, limits, None).unwrap();
}

/// A thread that asks while others run all the time is overtaken by each of them about once.
#[test]
fn nobody_is_overtaken_again_and_again() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 0.0);
    let stop = AtomicBool::new(false);
    let steps = AtomicUsize::new(0);
    let busy = 3;
    let mut overtaken = Vec::new();
    std::thread::scope(|scope| {
        for _ in 0..busy {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    s.run(
                        &|context| {
                            if context.replica() == 0 {
                                steps.fetch_add(1, Ordering::SeqCst);
                            }
                            Ok(None)
                        },
                        None,
                    )
                    .unwrap();
                }
            });
        }
        for how in ALL.into_iter().cycle().take(200) {
            let before = steps.load(Ordering::SeqCst);
            ask(&s, &v, how);
            overtaken.push(steps.load(Ordering::SeqCst) - before);
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(value_of(&v), 50.0);
    // Not all of them: a thread that the system stops before it comes to the queue is in no queue.
    overtaken.sort_unstable();
    assert!(overtaken[100] <= 3 * busy, "{overtaken:?}");
}

/// A thread that gives up waiting leaves the queue, and those behind it are served.
#[test]
fn whoever_gives_up_leaves_the_queue() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 0.0);
    let (begun, gate) = (Gate::default(), Gate::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hold = |context: &ReplicaContext| {
                if context.replica() == 0 {
                    begun.open();
                    gate.pass();
                }
                Ok(None)
            };
            s.run(&hold, None).unwrap();
        });
        begun.pass();
        let token = Cancellation::new();
        let (run, token_of_run) = (&s, token.clone());
        let cancelled = scope.spawn(move || {
            let limits = Limits { cancellation: Some(token_of_run), ..Limits::default() };
            run.run_within(Arc::new(|_| panic!("runs")), None, limits, None)
        });
        let behind = scope.spawn(|| ask(&s, &v, Asking::Assignment));
        let deadline = Some(Instant::now() + Duration::from_millis(5));
        let limits = Limits { deadline, ..Limits::default() };
        let late = s.run_within(Arc::new(|_| panic!("runs")), None, limits, None);
        refused(late, Status::DeadlineExceeded, &["deadline"]);
        token.cancel();
        refused(cancelled.join().unwrap(), Status::Cancelled, &["cancelled"]);
        assert!(!behind.is_finished());
        gate.open();
    });
    assert_eq!(value_of(&v), 1.0);
}
