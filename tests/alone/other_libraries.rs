//! The warnings about computing libraries of the program, and the quota of a container. Each
//! program here runs in a process with a library that says what the test wants, and with files of a
//! cgroup that the test has written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, hint, process, thread};

use umbo_core::executor::{affinity, workers};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};

/// Says that it is an OpenBLAS and an OpenMP, and leads readers of the files of cgroups to a
/// folder.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *openblas_get_corename(void) { return getenv("KERNELS"); }
char *openblas_get_config(void) { return "OpenBLAS 0.3.21 DYNAMIC_ARCH"; }
int openblas_get_num_threads(void) { return 1; }
int omp_get_max_threads(void) { return atoi(getenv("THREADS")); }

static const char *faked(const char *path, char *place, size_t size) {
  const char *folder = getenv("CGROUP");
  if (!path || !folder || !*folder) return path;
  if (strcmp(path, "/proc/self/cgroup") && strncmp(path, "/sys/fs/cgroup/", 15)) return path;
  snprintf(place, size, "%s%s", folder, path);
  return place;
}

typedef int (*open_function)(const char *, int, ...);
int open64(const char *path, int flags, ...) {
  char place[4096];
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return ((open_function)dlsym(RTLD_NEXT, "open64"))(faked(path, place, sizeof place), flags, mode);
}

typedef int (*statx_function)(int, const char *, int, unsigned, struct statx *);
int statx(int folder, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict facts) {
  char place[4096];
  const statx_function next = (statx_function)dlsym(RTLD_NEXT, "statx");
  return next(folder, faked(path, place, sizeof place), flags, mask, facts);
}
"#;

/// A folder with the library, which is removed at the end.
struct Scene(PathBuf);

impl Scene {
    fn new(name: &str) -> Scene {
        let folder = env::temp_dir().join(format!("umbo-{name}-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("library.c");
        fs::write(&source, LIBRARY).unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(folder.join("libfakeblas.so"));
        assert!(
            compiler
                .arg(&source)
                .arg("-ldl")
                .status()
                .unwrap()
                .success()
        );
        Scene(folder)
    }

    /// A file of the cgroup's.
    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What the program says in this environment: the library's lines on standard error, and its
    /// own.
    fn says(&self, environment: &[(&str, &str)]) -> Vec<String> {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "--ignored",
            "--nocapture",
            "other_libraries::program",
        ]);
        command
            .env("LD_PRELOAD", self.0.join("libfakeblas.so"))
            .env_remove("UMBO_LOG");
        command
            .env("KERNELS", "Haswell")
            .env("THREADS", "1")
            .envs(environment.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let is_said = |line: &&str| line.starts_with("umbo: ") || line.starts_with("program: ");
        text.iter()
            .flat_map(|text| text.lines())
            .filter(is_said)
            .map(str::to_owned)
            .collect()
    }

    fn folder(&self) -> OsString {
        self.0.clone().into_os_string()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        hint::spin_loop();
    }
}

/// Trains twice, with steps that take their time. Where `BUSY` is set, each replica's first
/// callback starts a thread that computes beside it, as OpenMP does.
#[test]
#[ignore = "is run by the tests below, with a library"]
fn program() {
    println!();
    println!("program: {} workers", workers::count());
    static STOP: AtomicBool = AtomicBool::new(false);
    let is_busy = env::var_os("BUSY").is_some();
    for _ in 0..2 {
        let replicas = affinity::usable();
        let strategy = Strategy::new(&Options {
            cpu_replicas: replicas,
            ..Options::default()
        })
        .unwrap();
        let step = |context: &ReplicaContext| {
            if is_busy && context.step_number() == 1 {
                thread::spawn(|| {
                    while !STOP.load(Ordering::Relaxed) {
                        hint::spin_loop();
                    }
                });
            }
            burn(Duration::from_millis(2));
            Ok(None)
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(400) {
            strategy.run(&step, None).unwrap();
        }
    }
    STOP.store(true, Ordering::Relaxed);
}

#[test]
fn the_first_step_warns_of_kernels_that_are_older_than_the_processor() {
    let scene = Scene::new("kernels");
    let warnings = |kernels| {
        let mut said = scene.says(&[("KERNELS", kernels)]);
        said.retain(|line| line.starts_with("umbo: "));
        said
    };
    assert_eq!(warnings("Haswell"), [""; 0]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // Once, although the program has two strategies.
        let said = warnings("Prescott");
        let start = "umbo: WARNING: OpenBLAS (libfakeblas.so) computes with its Prescott kernels";
        assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
        assert!(said[0].contains("Set OPENBLAS_CORETYPE="), "{said:?}");
    }
}

#[test]
fn threads_that_outnumber_the_processors_are_warned_of_once_a_strategy() {
    let scene = Scene::new("threads");
    let warnings = |environment: &[(&str, &str)]| {
        let mut said = scene.says(environment);
        said.retain(|line| line.starts_with("umbo: "));
        said
    };
    let threads = (affinity::usable() + 1).to_string();
    let said = warnings(&[("THREADS", &threads), ("BUSY", "1")]);
    assert!((1..=2).contains(&said.len()), "{said:?}");
    for line in &said {
        assert!(line.starts_with("umbo: WARNING: strategy "), "{line}");
        for part in [
            "not Umbo's",
            "compete with",
            "OpenMP (libfakeblas.so)",
            "set OMP_NUM_THREADS=1",
        ] {
            assert!(line.contains(part), "no '{part}' in: {line}");
        }
        assert!(
            affinity::usable() < 2 || line.contains("started by umbo-replica-1"),
            "{line}"
        );
    }
    // Threads that do not compute, and threads of a program that loads its data, are as the program
    // wants them.
    assert_eq!(warnings(&[("THREADS", &threads)]), [""; 0]);
    assert_eq!(warnings(&[("BUSY", "1")]), [""; 0]);
}

#[test]
fn a_quota_makes_fewer_workers() {
    let scene = Scene::new("quota");
    let folder = scene.folder();
    let workers = || {
        let said = scene.says(&[("CGROUP", folder.to_str().unwrap())]);
        said.into_iter()
            .find(|line| line.starts_with("program: "))
            .unwrap()
    };
    let all = format!(
        "program: {} workers",
        affinity::process_processors().count()
    );
    scene.write("/proc/self/cgroup", "0::/job\n");
    scene.write("/sys/fs/cgroup/job/cgroup.controllers", "cpu\n");
    scene.write("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    assert_eq!(workers(), all);
    scene.write("/sys/fs/cgroup/job/cpu.max", "150000 100000\n");
    assert_eq!(workers(), "program: 1 workers");
    // The older kind of groups.
    scene.write("/proc/self/cgroup", "4:cpu,cpuacct:/job\n");
    scene.write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    scene.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    assert_eq!(workers(), all);
    scene.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
    assert_eq!(workers(), "program: 1 workers");
}
