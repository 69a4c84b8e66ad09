//! Variables alone, read from safetensors files of Umbo or of other programs.

use std::collections::HashMap;
use std::path::Path;

use crate::bundle::Checkpoint;
use crate::mismatch::refuse;
use crate::reader::CheckpointFile;
use crate::wanted::WantedTensors;
use umbo_base::error::{Error, Result};
use umbo_tensor::values::variable::Variable;

impl Checkpoint {
    /// Sets variables to the values of tensors in the safetensors file at `path`, which any program
    /// may have written. `pairs` has names of variables in this checkpoint, each with the name
    /// of its tensor in the file. Without it, all variables are set from tensors with their own
    /// names. All other tensors in the file are ignored, and all other state is unchanged.
    ///
    /// INVALID_ARGUMENT, with a list of all differences, if a tensor is missing or has another
    /// dtype or shape; then nothing is changed. NOT_FOUND: no such variable.
    pub fn load_weights(&self, path: &Path, pairs: Option<&[(&str, &str)]>) -> Result<()> {
        let file = CheckpointFile::open(path)?;
        let variables = self.variables();
        let chosen: Vec<_> = match pairs {
            None => variables
                .iter()
                .map(|(name, variable)| (&name[..], &name[..], variable))
                .collect(),
            Some(pairs) => {
                let by_name: HashMap<&str, &Variable> = variables
                    .iter()
                    .map(|(name, variable)| (&name[..], variable))
                    .collect();
                let find = |&(name, tensor): &(_, _)| {
                    let variable = by_name.get(name).ok_or_else(|| {
                        let known: Vec<_> = variables.iter().map(|(known, _)| &known[..]).collect();
                        let known = known.join(", ");
                        Error::NotFound(format!(
                            "variables: no variable '{name}' was added; there are [{known}]"
                        ))
                    })?;
                    Ok((name, tensor, *variable))
                };
                pairs.iter().map(find).collect::<Result<_>>()?
            }
        };
        let mut mismatches = Vec::new();
        let mut wanted = WantedTensors::default();
        let mut values = Vec::new();
        for (name, tensor, variable) in chosen {
            let dtype = variable.dtype();
            let shape = variable.shape();
            let value = file.want(tensor, name, dtype, shape, &mut wanted, &mut mismatches)?;
            values.extend(value.map(|value| (variable, value)));
        }
        let first_missing = mismatches
            .iter_mut()
            .find(|mismatch| mismatch.starts_with("missing:"));
        if let Some(missing) = first_missing {
            *missing += &format!("; it has {}", file.listed_names());
        }
        refuse(path, &mismatches)?;
        self.with_changes(&file.read_wanted(&wanted)?, |changes| {
            let mut values = values.iter();
            values
                .try_for_each(|&(variable, value)| changes.replace(variable, changes.value(value)?))
        })
    }
}
