//! `umbo doctor --gpu`: whether each GPU gives the bits of the CPU, keeps order under load, and how fast
//! its memory and its bus are. One report, to be pasted into an issue.

mod certificates;
mod order;
mod roofs;

use std::fmt::Write;

use serde_json::{Value, json};
use umbo::device::{DeviceId, DeviceKind, cuda, registry};
use umbo::error::Result;

use crate::{Report, bytes_text, json_text};

/// What was compared, and what came out otherwise than on the CPU.
#[derive(Default)]
struct Checked {
    comparisons: u64,
    differing: Vec<String>,
}

impl Checked {
    /// Counts a comparison of what the GPU gave with what the CPU gives.
    fn compare<T: PartialEq>(&mut self, what: impl FnOnce() -> String, gpu: &T, cpu: &T) {
        self.comparisons += 1;
        if gpu != cpu {
            self.differing.push(what());
        }
    }
}

/// All that was found out about one GPU.
struct Findings {
    device: DeviceId,
    model: String,
    capability: (u32, u32),
    memory: u64,
    certificates: Checked,
    order: Checked,
    roofs: roofs::Roofs,
}

/// Examines all GPUs, with blocks of `bytes` bytes where something is measured.
pub fn examine(bytes: usize, json: bool) -> Report {
    if let Err(reason) = cuda::probe() {
        let text = if json {
            json_text(&json!({ "gpus": [], "no_gpu_because": reason }))
        } else {
            format!("There is no GPU to examine: {reason}.\n")
        };
        return Report { text, fine: false };
    }
    let gpus = 0..registry::logical_count(DeviceKind::Gpu);
    let all: Vec<(DeviceId, Result<Findings>)> = gpus
        .map(|index| DeviceId { kind: DeviceKind::Gpu, index })
        .map(|device| (device, examine_one(device, bytes)))
        .collect();
    let is_fine = |found: &Result<Findings>| {
        found.as_ref().is_ok_and(|found| {
            found.certificates.differing.is_empty() && found.order.differing.is_empty()
        })
    };
    let fine = all.iter().all(|(_, found)| is_fine(found));
    let text = if json { json_text(&as_json(&all, fine)) } else { as_text(&all, fine) };
    Report { text, fine }
}

fn examine_one(device: DeviceId, bytes: usize) -> Result<Findings> {
    let gpu = registry::gpu(device)?;
    Ok(Findings {
        device,
        model: gpu.card().name().to_owned(),
        capability: gpu.card().capability(),
        memory: registry::memory_info(device)?.total_bytes,
        certificates: certificates::check(device)?,
        order: order::check(device, bytes)?,
        roofs: roofs::measure(device, bytes)?,
    })
}

fn checked_as_json(checked: &Checked) -> Value {
    json!({ "comparisons": checked.comparisons, "differing": checked.differing })
}

fn as_json(all: &[(DeviceId, Result<Findings>)], fine: bool) -> Value {
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
            }),
        })
        .collect();
    json!({ "version": env!("CARGO_PKG_VERSION"), "fine": fine, "gpus": gpus })
}

fn as_text(all: &[(DeviceId, Result<Findings>)], fine: bool) -> String {
    let mut text = format!("umbo {}: report on GPUs\n", env!("CARGO_PKG_VERSION"));
    for (device, found) in all {
        // Writing to a string cannot fail.
        let _ = match found {
            Err(error) => writeln!(text, "\n{device}: {error}"),
            Ok(found) => writeln!(text, "\n{}", of_one(found)),
        };
    }
    text += match fine {
        true => "\nThe bits are those of the CPU, and the order of work was kept.\n",
        false => "\nSomething is wrong. Please report it, with all of this.\n",
    };
    text
}

fn of_one(found: &Findings) -> String {
    let Findings { device, model, capability, memory, certificates, order, roofs } = found;
    let (major, minor) = capability;
    let mut text =
        format!("{device}: {model}, compute capability {major}.{minor}, {}\n", bytes_text(*memory));
    for (what, checked) in [("bits of the CPU", certificates), ("order under load", order)] {
        let Checked { comparisons, differing } = checked;
        let _ = writeln!(text, "  {what}: {comparisons} comparisons, {} differ", differing.len());
        for each in differing.iter().take(20) {
            let _ = writeln!(text, "    differs: {each}");
        }
    }
    text + &roofs.as_text()
}
