//! `umbo devices`: the physical and logical devices of this machine.

use std::fmt::Write;

use lexopt::Arg::{Long, Short};
use serde_json::{Value, json};
use umbo_core::device::registry::{self, PhysicalDevice, REGISTRY};
use umbo_core::device::{DeviceId, DeviceKind};
use umbo_core::executor::affinity;

use crate::arguments::number;
use crate::failure::Failure;
use crate::{Report, bytes_text, gpu, json_text};

pub const HELP: &str = "\
Usage: umbo devices [OPTIONS]

Shows the physical devices with their memory and the logical devices that a strategy can use.

Options:
      --logical-cpus N   show how N logical CPUs would share the processors (1 to 4096; default: 1)
      --json             print one JSON object
  -h, --help             show this help
";

pub fn run(mut arguments: lexopt::Parser) -> std::result::Result<Report, Failure> {
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("json") => json = true,
            Long("logical-cpus") => {
                let possible = 1..=registry::MAX_LOGICAL_CPUS;
                registry::REGISTRY.ensure_logical_cpus(number(
                    &mut arguments,
                    "logical-cpus",
                    possible,
                )?)?;
            }
            Short('h') | Long("help") => return Ok(Report::fine(HELP)),
            other => return Err(other.unexpected().into()),
        }
    }
    let physical: Vec<PhysicalDevice> = registry::physical_devices().collect();
    let logical = logical_devices();
    Ok(Report::fine(if json {
        json_text(&as_json(&physical, &logical))
    } else {
        as_table(&physical, &logical)
    }))
}

struct Logical {
    device: DeviceId,
    processors: Option<String>,
}

/// The processors of the host that this process may use, for the host.
fn processors_of(physical: &PhysicalDevice) -> Option<String> {
    let is_host = physical.device.is_host_memory();
    is_host.then(|| affinity::process_processors().to_string())
}

fn logical_devices() -> Vec<Logical> {
    let devices = DeviceKind::all().flat_map(|kind| {
        (0..REGISTRY.logical_count(kind)).map(move |index| DeviceId { kind, index })
    });
    devices
        .map(|device| Logical {
            device,
            processors: registry::processors(device, affinity::process_processors())
                .ok()
                .map(|set| set.to_string()),
        })
        .collect()
}

fn as_json(physical: &[PhysicalDevice], logical: &[Logical]) -> Value {
    let physical: Vec<Value> = physical
        .iter()
        .map(|each| {
            let memory = each.memory.as_ref().ok();
            let capability = each
                .capability
                .map(|(major, minor)| format!("{major}.{minor}"));
            json!({
                "name": each.device.to_string(),
                "kind": each.device.kind.name(),
                "index": each.device.index,
                "model": each.model,
                "processors": processors_of(each),
                "compute_capability": capability,
                "too_old": each.capability.map(|capability| gpu::too_old(capability).is_some()),
                "total_bytes": memory.map(|memory| memory.total_bytes),
                "available_bytes": memory.map(|memory| memory.available_bytes),
            })
        })
        .collect();
    let logical: Vec<Value> = logical
        .iter()
        .map(|each| {
            json!({
                "name": each.device.to_string(),
                "canonical_name": each.device.canonical_name(),
                "kind": each.device.kind.name(),
                "index": each.device.index,
                "processors": each.processors,
            })
        })
        .collect();
    json!({
        "physical": physical,
        "logical": logical,
        "no_gpu_because": REGISTRY.no_gpu_reason(),
    })
}

fn as_table(physical: &[PhysicalDevice], logical: &[Logical]) -> String {
    let mut rows = vec![row([
        "PHYSICAL",
        "MEMORY",
        "AVAILABLE",
        "PROCESSORS",
        "MODEL",
    ])];
    let mut problems = String::new();
    for each in physical {
        let (total, available) = match &each.memory {
            Ok(memory) => (
                bytes_text(memory.total_bytes),
                bytes_text(memory.available_bytes),
            ),
            Err(error) => {
                // Writing to a string cannot fail.
                let _ = writeln!(problems, "{error}");
                ("?".to_owned(), "?".to_owned())
            }
        };
        let processors = processors_of(each).unwrap_or_else(|| "-".to_owned());
        let model = each.model.as_deref().unwrap_or("-");
        let model = match each.capability {
            Some(capability) => {
                let (major, minor) = capability;
                let problem = gpu::too_old(capability).map(|why| format!("; {why}"));
                let problem = problem.unwrap_or_default();
                format!("{model} (compute capability {major}.{minor}{problem})")
            }
            None => model.to_owned(),
        };
        rows.push(row([
            &each.device.to_string(),
            &total,
            &available,
            &processors,
            &model,
        ]));
    }
    let mut text = aligned(&rows);
    if let Some(reason) = REGISTRY.no_gpu_reason() {
        let _ = writeln!(text, "No GPU: {reason}.");
    }
    let mut rows = vec![row(["LOGICAL", "PROCESSORS", "CANONICAL NAME"])];
    for each in logical {
        let processors = each.processors.as_deref().unwrap_or("-");
        rows.push(row([
            &each.device.to_string(),
            processors,
            &each.device.canonical_name(),
        ]));
    }
    text + &problems + "\n" + &aligned(&rows)
}

fn row<const COLUMNS: usize>(cells: [&str; COLUMNS]) -> Vec<String> {
    cells.map(str::to_owned).into()
}

/// Rows with equal numbers of cells. Each column is as wide as its widest cell.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [row(["a", "b"]), row(["long", "c"]), row(["", ""])];
        assert_eq!(aligned(&rows), "a     b\nlong  c\n\n");
    }

    #[test]
    fn unknown_memory_is_said() {
        let physical = [PhysicalDevice {
            device: DeviceId {
                kind: DeviceKind::Gpu,
                index: 3,
            },
            model: None,
            capability: None,
            memory: Err(umbo_core::error::Error::Unavailable(
                "it fell off the bus".into(),
            )),
        }];
        let table = as_table(&physical, &[]);
        assert!(
            table.contains("GPU:3") && table.contains("it fell off the bus"),
            "{table}"
        );
        assert_eq!(
            as_json(&physical, &[])["physical"][0]["total_bytes"],
            Value::Null
        );
    }
}
