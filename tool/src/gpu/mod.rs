//! `umbo doctor --gpu`: checks whether each GPU computes the bits of the CPU and keeps order under
//! load, and measures the speed of its memory and its bus. The output is one report that can be
//! pasted into an issue.

mod certificates;
mod order;
mod roofs;

use std::fmt::{self, Display, Formatter, Write};

use serde_json::{Value, json};
use umbo_core::device::registry::{self, REGISTRY};
use umbo_core::device::{DeviceId, DeviceKind, cuda};
use umbo_core::error::{Error, Status};

use crate::arguments::{Bytes, Number};
use crate::bench::device as memory;
use crate::{Report, bytes_text, json_text};

/// The lowest compute capability for which the kernels are compiled.
const OLDEST: (u32, u32) = (7, 0);

/// The reason why a GPU with this compute capability cannot be used, if it is too old.
pub fn too_old(capability: (u32, u32)) -> Option<String> {
    let (major, minor) = OLDEST;
    (capability < OLDEST).then(|| format!("too old: Umbo needs {major}.{minor} or newer"))
}

/// The number of comparisons, and the results that differ from those of the CPU.
#[derive(Default)]
struct Checked {
    comparisons: u64,
    differing: Vec<String>,
}

impl Checked {
    /// Counts a comparison of the GPU's result with the CPU's.
    fn compare<T: PartialEq>(&mut self, case: impl FnOnce() -> String, gpu: &T, cpu: &T) {
        self.comparisons += 1;
        if gpu != cpu {
            self.differing.push(case());
        }
    }
}

/// All findings about one GPU.
struct Findings {
    device: DeviceId,
    model: String,
    capability: (u32, u32),
    memory: u64,
    certificates: Checked,
    order: Checked,
    roofs: roofs::Roofs,
}

/// Why the examination of a GPU was not completed.
enum Unexamined {
    /// The GPU is too old. The text names what it lacks.
    TooOld(String),
    OutOfMemory(Error),
    Failed(Error),
}

impl From<Error> for Unexamined {
    fn from(error: Error) -> Unexamined {
        match error.status() {
            Status::ResourceExhausted => Unexamined::OutOfMemory(error),
            _ => Unexamined::Failed(error),
        }
    }
}

impl Display for Unexamined {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Unexamined::TooOld(why) => formatter.write_str(why),
            Unexamined::OutOfMemory(error) | Unexamined::Failed(error) => error.fmt(formatter),
        }
    }
}

/// The outcome of the examination of a GPU.
type Outcome = std::result::Result<Findings, Unexamined>;

/// The verdict at the end of the report on all GPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Fine,
    TooOld,
    OutOfMemory,
    /// The result is wrong and should be reported.
    Wrong,
}

impl Verdict {
    fn of(found: &Outcome) -> Verdict {
        match found {
            Ok(found)
                if found.certificates.differing.is_empty() && found.order.differing.is_empty() =>
            {
                Verdict::Fine
            }
            Err(Unexamined::TooOld(_)) => Verdict::TooOld,
            Err(Unexamined::OutOfMemory(_)) => Verdict::OutOfMemory,
            Ok(_) | Err(Unexamined::Failed(_)) => Verdict::Wrong,
        }
    }

    fn sentence(self, bytes: usize) -> String {
        match self {
            Verdict::Fine => {
                "The bits are those of the CPU, and the order of work was kept.".into()
            }
            Verdict::TooOld => "A GPU is too old to be used; nothing else is wrong.".into(),
            Verdict::OutOfMemory => format!(
                "A GPU has too little memory left to be examined: give a --bytes smaller than {}.",
                Bytes(bytes).shown()
            ),
            Verdict::Wrong => "Something is wrong. Please report it, with all of this.".into(),
        }
    }
}

/// Examines all GPUs. Measurements use blocks of `bytes` bytes.
pub fn examine(bytes: usize, json: bool) -> Report {
    if let Some(reason) = REGISTRY.no_gpu_reason() {
        let text = if json {
            json_text(&json!({ "gpus": [], "no_gpu_because": reason }))
        } else {
            format!("There is no GPU to examine: {reason}.\n")
        };
        return Report { text, fine: false };
    }
    let gpus = 0..REGISTRY.logical_count(DeviceKind::Gpu);
    let all: Vec<(DeviceId, Outcome)> = gpus
        .map(|index| DeviceId {
            kind: DeviceKind::Gpu,
            index,
        })
        .map(|device| (device, examine_one(device, bytes)))
        .collect();
    let worst = all
        .iter()
        .map(|(_, found)| Verdict::of(found))
        .max()
        .unwrap_or(Verdict::Fine);
    let fine = worst == Verdict::Fine;
    let text = match json {
        true => json_text(&as_json(&all, fine)),
        false => as_text(&all, &worst.sentence(bytes)),
    };
    Report { text, fine }
}

fn examine_one(device: DeviceId, bytes: usize) -> Outcome {
    let (major, minor) = cuda::capability(device.index)?;
    if let Some(why) = too_old((major, minor)) {
        return Err(Unexamined::TooOld(format!(
            "compute capability {major}.{minor} is {why}"
        )));
    }
    Ok(Findings {
        device,
        model: registry::backend(device)?.model().to_owned(),
        capability: (major, minor),
        memory: registry::memory_info(device)?.total_bytes,
        certificates: certificates::check(device)?,
        order: order::check(device, bytes)?,
        roofs: roofs::measure(device, bytes)?,
    })
}

fn checked_as_json(checked: &Checked) -> Value {
    json!({ "comparisons": checked.comparisons, "differing": checked.differing })
}

fn as_json(all: &[(DeviceId, Outcome)], fine: bool) -> Value {
    let gpus: Vec<Value> = all
        .iter()
        .map(|(device, found)| match found {
            Err(error) => json!({ "name": device.to_string(), "error": error.to_string() }),
            Ok(found) => json!({
                "name": device.to_string(),
                "model": found.model,
                "compute_capability": format!("{}.{}", found.capability.0, found.capability.1),
                "total_bytes": found.memory,
                "bits_of_the_cpu": checked_as_json(&found.certificates),
                "order_under_load": checked_as_json(&found.order),
                "measured": found.roofs.as_json(),
                "interpreted": !memory::is_real(*device),
            }),
        })
        .collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "ok": fine, "gpus": gpus })
}

fn as_text(all: &[(DeviceId, Outcome)], verdict: &str) -> String {
    let mut text = format!("umbo {}: report on GPUs\n", env!("CARGO_PKG_VERSION"));
    for (device, found) in all {
        // Writing to a string cannot fail.
        let _ = match found {
            Err(error) => writeln!(text, "\n{device}: {error}"),
            Ok(found) => writeln!(text, "\n{}", of_one(found)),
        };
    }
    text + "\n" + verdict + "\n"
}

fn of_one(found: &Findings) -> String {
    let Findings {
        device,
        model,
        capability,
        memory,
        certificates,
        order,
        roofs,
    } = found;
    let (major, minor) = capability;
    let mut text = format!(
        "{device}: {model}, compute capability {major}.{minor}, {}\n",
        bytes_text(*memory)
    );
    for (name, checked) in [
        ("bits of the CPU", certificates),
        ("order under load", order),
    ] {
        let Checked {
            comparisons,
            differing,
        } = checked;
        let _ = writeln!(
            text,
            "  {name}: {comparisons} comparisons, {} differ",
            differing.len()
        );
        for each in differing.iter().take(20) {
            let _ = writeln!(text, "    differs: {each}");
        }
    }
    text += &roofs.as_text();
    if let Some(note) = memory::note(*device) {
        text += &format!("  {note}");
    }
    text
}
