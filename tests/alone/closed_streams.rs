//! A process that has closed standard streams, as daemons do: what its threads print there is in no
//! file that is being written.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use umbo_core::checkpoint::Checkpoint;
use umbo_core::checkpoint::arrays::{save_npy, save_npz};
use umbo_core::checkpoint::atomic::AtomicFile;
use umbo_core::device::DeviceId;
use umbo_core::diagnose::trace;
use umbo_core::observe::log::{self, Level};
use umbo_core::strategy::variables::{Initial, create};
use umbo_core::strategy::{Options, Strategy};
use umbo_core::tensor::{Shape, Tensor};
use umbo_core::values::variable::Aggregation;

type Write<'a> = (&'a str, &'a dyn Fn(&Path));

/// Closes those of the standard streams that are in the set, while `work` runs.
fn without(closed: &[i32], work: impl FnOnce()) {
    // SAFETY: this process is the test's own, which gets its streams back.
    let kept: Vec<i32> = closed
        .iter()
        .map(|&stream| unsafe { libc::dup(stream) })
        .collect();
    // A copy must not be one of the closed ones.
    assert!(kept.iter().all(|copy| *copy > 2));
    // SAFETY: as above.
    closed
        .iter()
        .for_each(|&stream| assert_eq!(unsafe { libc::close(stream) }, 0));
    work();
    for (&stream, copy) in closed.iter().zip(kept) {
        // SAFETY: as above.
        let ended = unsafe { (libc::dup2(copy, stream), libc::close(copy)) };
        assert_eq!(ended, (stream, 0));
    }
}

/// What libraries print: through the descriptors themselves.
fn print_until(done: &AtomicBool, closed: &[i32]) {
    while !done.load(Ordering::Relaxed) {
        for &stream in closed {
            // SAFETY: the bytes are a literal.
            unsafe { libc::write(stream, b"NOISE\n".as_ptr().cast(), 6) };
        }
        if closed.contains(&2) {
            log::log(Level::Error, || "NOISE".into());
        }
    }
}

fn descriptors_of(path: &Path) -> Vec<i32> {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let ours = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file == path));
    ours.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn no_file_takes_the_place_of_a_closed_stream() {
    let true = crate::is_alone(no_file_takes_the_place_of_a_closed_stream) else {
        return;
    };
    let folder = std::env::temp_dir().join(format!("umbo-streams-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let file = |name: &str| -> PathBuf { folder.join(name) };
    let strategy = Strategy::new(&Options {
        cpu_replicas: 1,
        ..Options::default()
    })
    .unwrap();
    let values = vec![0.5f32; 1 << 17];
    let array = Tensor::from_slice(
        &values,
        Shape::new(&[values.len()]).unwrap(),
        DeviceId::HOST,
    )
    .unwrap();
    let checkpoint = Checkpoint::new(&strategy);
    let new = crate::fresh::new_variable("w", Aggregation::Mean);
    let variable = create(Some(&strategy), new, Initial::Value(&array)).unwrap();
    checkpoint.add("w", Arc::new(variable)).unwrap();
    let writes: [Write<'_>; 4] = [
        ("checkpoint", &|path| checkpoint.save(path).unwrap()),
        ("weights", &|path| checkpoint.save_weights(path).unwrap()),
        ("npy", &|path| save_npy(&array, path).unwrap()),
        ("npz", &|path| save_npz(&[("a", &array)], path).unwrap()),
    ];
    let expected = writes.map(|(name, write)| {
        write(&file(name));
        fs::read(file(name)).unwrap()
    });
    for set in 1..8 {
        let closed: Vec<i32> = (0..3).filter(|stream| set >> stream & 1 == 1).collect();
        let mut found = Vec::new();
        let mut next = -1;
        without(&closed, || {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| print_until(&done, &closed));
                for (name, write) in &writes {
                    write(&file(name));
                }
                trace::start(&file("trace"), 1000).unwrap();
                trace::program::begin("span");
                trace::program::end();
                let atomic = AtomicFile::create(&file("atomic")).unwrap();
                for entry in fs::read_dir(&folder).unwrap() {
                    found.extend(descriptors_of(&entry.unwrap().path()));
                }
                drop(atomic);
                trace::stop().unwrap();
                done.store(true, Ordering::Relaxed);
            });
            // A program may open its streams again, at the lowest descriptors that are free.
            next = File::open("/").unwrap().as_raw_fd();
        });
        assert_eq!(next, closed[0]);
        assert!(
            found.len() == 2 && found.iter().all(|&one| one > 2),
            "{closed:?}: {found:?}"
        );
        for ((name, _), expected) in writes.iter().zip(&expected) {
            assert!(
                fs::read(file(name)).unwrap() == *expected,
                "{name} without {closed:?}"
            );
        }
        let trace = fs::read_to_string(file("trace")).unwrap();
        assert!(
            !trace.contains("NOISE") && trace.contains("summary"),
            "{closed:?}: {trace}"
        );
    }
    fs::remove_dir_all(&folder).unwrap();
}
