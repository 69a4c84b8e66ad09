//! A trace of real steps, from the library's file to a page that a browser shows, and to the
//! report.
//!
//! The browser is Chromium without a window (Debian: `chromium-headless-shell`). Where it is not,
//! that part says so.

#![expect(
    clippy::too_many_lines,
    reason = "a scene that is told in one go is read in one go"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use umbo_core::collectives::ReduceOp;
use umbo_core::diagnose::trace::{self, program};
use umbo_core::input::Dataset;
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("umbo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn umbo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_umbo"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Some steps of two replicas, with input that is made ahead and an all-reduce. A process has one
/// trace at a time.
fn write_trace(path: &Path) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let strategy = Strategy::new(&Options {
        cpu_replicas: 2,
        ..Options::default()
    })
    .unwrap();
    let dataset = Dataset::range(0, 400, 1)
        .unwrap()
        .batch(8, false)
        .unwrap()
        .prefetch(2)
        .unwrap();
    let iterator = dataset.iterator().unwrap();
    trace::start(path, trace::MOST_EVENTS).unwrap();
    program::begin("an <epoch>");
    while let Some(batch) = iterator.next().unwrap() {
        let step = |context: &ReplicaContext| {
            program::begin("forward");
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(400 + 200 * context.replica() as u64) {
                std::hint::spin_loop();
            }
            program::end();
            let one = Value::Tensor(Tensor::scalar(1.0f32)?);
            context.all_reduce(ReduceOp::Sum, one)?;
            Ok(None)
        };
        strategy.run(&step, Some(batch)).unwrap();
    }
    program::end();
    trace::stop().unwrap();
}

fn browser() -> Option<&'static str> {
    ["chromium-headless-shell", "chromium"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
}

/// The number of spans on the page that was made.
fn spans(made: &Output) -> usize {
    let said = text(&made.stdout);
    let (_, counts) = said.rsplit_once(": ").unwrap();
    counts.split(' ').next().unwrap().parse().unwrap()
}

/// Says that a part is skipped, which fails where it may not be.
fn skip(why: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/skip.sh");
    let status = Command::new(script)
        .args(["trace.page", why])
        .status()
        .unwrap();
    assert_eq!(
        status.code(),
        Some(77),
        "trace.page may not be skipped here: {why}"
    );
}

/// A visitor of the page: the actions, and what they show, in the attributes of its body.
const VISITOR: &str = "<script>
const shown = () => [umboTrace.view.from, umboTrace.view.to];
const canvas = document.getElementById('canvas');
const tell = (name, value) => { document.body.dataset[name] = JSON.stringify(value); };
const painted = (top) => {
  const pen = canvas.getContext('2d'), scale = canvas.width / canvas.clientWidth;
  const strip = pen.getImageData(0, (top + 10) * scale, canvas.width, 1).data;
  const colours = new Set();
  for (let at = 0; at < strip.length; at += 4) colours.add(strip.slice(at, at + 4).join());
  return colours.size;
};
tell('rows', umboTrace.rows);
tell('colours', [...document.querySelectorAll('#labels div')].map((label) => \
                       painted(label.offsetTop)));
tell('all', shown());
canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -900, clientX: \
                       canvas.getBoundingClientRect().left + 300 }));
tell('zoomed', shown());
document.getElementById('in').click();
tell('button', shown());
for (const [type, x] of [['pointerdown', 300], ['pointermove', 200], ['pointerup', 200]])
  canvas.dispatchEvent(new PointerEvent(type, { clientX: canvas.getBoundingClientRect().left + x \
                       }));
tell('moved', shown());
dispatchEvent(new KeyboardEvent('keydown', { key: '0' }));
tell('fit', shown());
</script>";

/// The visitor's note under a name.
fn told(page: &str, name: &str) -> serde_json::Value {
    let start = format!("data-{name}=\"");
    let from = page
        .find(&start)
        .unwrap_or_else(|| panic!("no {name} in the page"))
        + start.len();
    let value = &page[from..from + page[from..].find('"').unwrap()];
    serde_json::from_str(&value.replace("&quot;", "\"").replace("&lt;", "<")).unwrap()
}

fn pair(page: &str, name: &str) -> (f64, f64) {
    let value = told(page, name);
    (value[0].as_f64().unwrap(), value[1].as_f64().unwrap())
}

#[test]
fn a_page_shows_the_replicas_and_zooms() {
    let folder = Folder::new("page");
    let file = folder.0.join("trace.json");
    let html = folder.0.join("trace.html");
    write_trace(&file);
    let made = umbo(&[
        "trace",
        file.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(
        text(&made.stdout).contains("spans in"),
        "{}",
        text(&made.stdout)
    );
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(!page.contains("://"), "the page needs the network");
    let later = umbo(&[
        "trace",
        file.to_str().unwrap(),
        "--html",
        folder.0.join("later.html").to_str().unwrap(),
        "--from",
        "40",
    ]);
    // Of 50 steps.
    let (all, last) = (spans(&made), spans(&later));
    assert!(0 < last && last < all / 3, "{last} of {all} spans");

    let Some(browser) = browser() else {
        return skip("no Chromium was found");
    };
    std::fs::write(&html, page.replace("</body>", &format!("{VISITOR}</body>"))).unwrap();
    let visit = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,700",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.0.join("profile").display()
        ))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", html.display()))
        .output()
        .unwrap();
    let seen = text(&visit.stdout);
    assert!(
        seen.contains("data-fit"),
        "{browser}: {seen}\n{}",
        text(&visit.stderr)
    );

    let rows = told(&seen, "rows");
    let rows: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row.as_str())
        .collect();
    assert!(
        rows[0].starts_with("replica 0") && rows[1] == "replica 1",
        "{rows:?}"
    );
    assert!(rows.iter().any(|row| row.contains("prefetch")), "{rows:?}");
    for row in &rows {
        assert!(
            seen.contains(&format!(">{row}</div>")),
            "no label for {row}"
        );
    }
    let colours = told(&seen, "colours");
    for (at, row) in rows.iter().enumerate() {
        assert!(
            colours[at].as_u64().unwrap() >= 2,
            "nothing is drawn for {row}: {colours}"
        );
    }
    let all = pair(&seen, "all");
    let zoomed = pair(&seen, "zoomed");
    assert_eq!(all.0, 0.0);
    assert!(
        zoomed.1 - zoomed.0 < 0.5 * (all.1 - all.0),
        "{all:?} {zoomed:?}"
    );
    assert!(zoomed.0 > all.0 && zoomed.1 < all.1, "{all:?} {zoomed:?}");
    let button = pair(&seen, "button");
    assert!(
        (button.1 - button.0) * 1.9 < zoomed.1 - zoomed.0,
        "{zoomed:?} {button:?}"
    );
    let moved = pair(&seen, "moved");
    assert!(moved.0 > button.0, "{button:?} {moved:?}");
    assert!(
        ((moved.1 - moved.0) - (button.1 - button.0)).abs() < 1.0,
        "{button:?} {moved:?}"
    );
    assert_eq!(pair(&seen, "fit"), all);
}

#[test]
fn the_doctor_reads_traces() {
    let folder = Folder::new("doctor");
    let file = folder.0.join("trace.json");
    write_trace(&file);
    let whole = umbo(&["doctor", file.to_str().unwrap()]);
    assert!(whole.status.success());
    let report = text(&whole.stdout);
    assert!(
        report.contains("2 replicas on") && report.contains("replica 1"),
        "{report}"
    );
    assert!(report.contains("50 steps measured of 50"), "{report}");
    assert!(!report.contains("no end"), "{report}");

    let json = umbo(&["doctor", file.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["report"], report.as_str());

    // As a process leaves it that dies: the file lacks the latest events of the thread that comes
    // last in it.
    let all = std::fs::read(&file).unwrap();
    std::fs::write(&file, &all[..all.len() - all.len() / 20]).unwrap();
    let cut = umbo(&["doctor", file.to_str().unwrap()]);
    let report = text(&cut.stdout);
    assert!(
        report.contains("The trace has no end") && report.contains("replica 1"),
        "{report}"
    );

    let missing = umbo(&["doctor", "/nowhere/trace.json"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).starts_with("umbo: /nowhere/trace.json: "));
    let both = umbo(&["doctor", "--gpu", file.to_str().unwrap()]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn unusable_trace_commands_are_refused() {
    for (arguments, expected) in [
        (&["trace"][..], "which trace?"),
        (&["trace", "a.json"], "--html"),
        (
            &["trace", "a.json", "--html", "b.html", "--step", "3"],
            "give --plot",
        ),
        (
            &["trace", "a.json", "--plot", "b.svg", "--from", "3"],
            "give --html",
        ),
        (&["trace", "a.json", "b.json"], "b.json"),
    ] {
        let refused = umbo(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&refused.stderr).contains(expected),
            "{}",
            text(&refused.stderr)
        );
    }
    let folder = Folder::new("refused");
    let file = folder.0.join("other.json");
    let html = folder.0.join("page.html");
    std::fs::write(&file, "{\"traceEvents\":[]}").unwrap();
    let refused = umbo(&[
        "trace",
        file.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("a trace is expected"),
        "{}",
        text(&refused.stderr)
    );
    assert!(!html.exists());
}
