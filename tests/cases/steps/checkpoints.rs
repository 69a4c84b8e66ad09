//! Files of checkpoints with variables.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;
use umbo::*;

use super::Given;
use super::strategies::strategy_of;
use crate::environment::{Bound, Environment};
use crate::failure::{Result, check, wrong};
use crate::fields;
use crate::handle::{Handle, c_text, made};
use crate::values;

/// A file that a case has saved, which goes with the name that it is bound to.
#[derive(Debug)]
pub struct SavedFile(PathBuf);

impl Drop for SavedFile {
    fn drop(&mut self) {
        // One that could not be saved is not there.
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    match op {
        "save" => Some(save(step, environment)),
        "restore" => Some(restore(step, environment)),
        _ => None,
    }
}

/// A checkpoint of the variables that a step names. Their names in the file are their positions.
fn checkpoint(step: &Json, environment: &Environment<'_>) -> Result<Handle<umbo_checkpoint>> {
    let strategy = strategy_of(step, environment)?;
    // SAFETY: the output is a variable.
    let checkpoint = made(|to| unsafe { umbo_checkpoint_create(strategy.get(), to) })?;
    for (position, name) in fields::list(step, "variables")?.iter().enumerate() {
        let Some(name) = name.as_str() else {
            return wrong(format!("{name} is no name"));
        };
        let variable = values::variable(&*environment.value(name)?)?;
        let name = c_text(&position.to_string())?;
        // SAFETY: both are handles, the text outlives the call.
        check(unsafe {
            umbo_checkpoint_add_variable(checkpoint.get(), name.as_ptr(), variable.get())
        })?;
    }
    Ok(checkpoint)
}

fn save(step: &Json, environment: &Environment<'_>) -> Given {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let checkpoint = checkpoint(step, environment)?;
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("umbo-cases-{}-{number}.safetensors", std::process::id());
    let file = SavedFile(std::env::temp_dir().join(name));
    let path = c_text(&file.0.to_string_lossy())?;
    // SAFETY: the text outlives the call.
    check(unsafe { umbo_checkpoint_save(checkpoint.get(), path.as_ptr()) })?;
    Ok(Some(Bound::File(Arc::new(file))))
}

fn restore(step: &Json, environment: &Environment<'_>) -> Given {
    let file = match environment.look(fields::text(step, "file")?)? {
        Bound::File(file) => file,
        other => return wrong(format!("no file but {other:?}")),
    };
    let checkpoint = checkpoint(step, environment)?;
    let path = c_text(&file.0.to_string_lossy())?;
    // SAFETY: the text outlives the call.
    check(unsafe { umbo_checkpoint_restore(checkpoint.get(), path.as_ptr()) })?;
    Ok(None)
}
