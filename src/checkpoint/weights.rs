//! Variables alone: to and from safetensors files, Umbo's and others'.

use std::path::Path;

use serde_json::json;

use crate::checkpoint::bundle::Checkpoint;
use crate::checkpoint::mismatch::as_error;
use crate::checkpoint::reader::CheckpointFile;
use crate::checkpoint::writer::Snapshot;
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::strategy::variables::read_into;
use crate::tensor::Tensor;

impl Checkpoint {
    /// Replaces the file at `path` by one with the variables alone, for other programs and for
    /// [`Checkpoint::load_weights`]. It waits for the step in progress.
    pub fn save_weights(&self, path: &Path) -> Result<()> {
        let quiet = self.strategy().quiet()?;
        let mut snapshot = Snapshot { steps: quiet.steps(), ..Snapshot::default() };
        for (name, variable) in self.variables()? {
            let (dtype, shape) = (variable.dtype(), variable.shape());
            let value = Tensor::made(dtype, shape, DeviceId::HOST, |to| read_into(&variable, to))?;
            snapshot.tensors.push((name.clone(), value));
            snapshot.objects.insert(name, json!({ "kind": "variable" }));
        }
        drop(quiet);
        snapshot.sort();
        snapshot.write(path)
    }

    /// Gives variables the values of tensors in the safetensors file at `path`, whoever wrote it. `pairs`
    /// has names of variables in this checkpoint, and for each the name of its tensor in the file; none
    /// stands for all variables and their own names. What else is in the file is left alone, as is all
    /// state but that of these variables.
    ///
    /// INVALID_ARGUMENT, with a list of all that differs, if a tensor is missing or of another dtype or
    /// shape; then nothing is changed. NOT_FOUND: no such variable.
    pub fn load_weights(&self, path: &Path, pairs: Option<&[(&str, &str)]>) -> Result<()> {
        let file = CheckpointFile::open(path)?;
        let variables = self.variables()?;
        let chosen: Vec<_> = match pairs {
            None => {
                variables.iter().map(|(name, variable)| (&name[..], &name[..], variable)).collect()
            }
            Some(pairs) => {
                let find = |&(name, tensor): &(_, _)| {
                    let found = variables.iter().find(|(known, _)| known == name);
                    let (name, variable) = found.ok_or_else(|| {
                        let known: Vec<_> = variables.iter().map(|(known, _)| &known[..]).collect();
                        let known = known.join(", ");
                        Error::NotFound(format!(
                            "variables: no variable '{name}' was added; there are [{known}]"
                        ))
                    })?;
                    Ok((&name[..], tensor, variable))
                };
                pairs.iter().map(find).collect::<Result<_>>()?
            }
        };
        let (mut mismatches, mut values) = (Vec::new(), Vec::new());
        for (name, tensor, variable) in chosen {
            let (dtype, shape) = (variable.dtype(), variable.shape());
            let value = file.read_expecting(tensor, name, dtype, shape, &mut mismatches)?;
            values.extend(value.map(|value| (variable, value)));
        }
        if let Some(error) = as_error(path, &mismatches) {
            return Err(error);
        }
        self.with_changes(|changes| {
            values.iter().try_for_each(|(variable, value)| changes.replace(variable, value))
        })
    }
}
