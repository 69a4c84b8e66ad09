//! Modules: kernels from PTX.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::handle::{self, Kind, Raw};
use crate::ptx::kernel::Kernel;
use crate::ptx::read::read;
use crate::session::Session;

/// A kernel that a handle stands for.
#[derive(Clone)]
pub struct Function {
    pub context: u32,
    module: u32,
    pub kernel: Arc<Kernel>,
}

/// All kernels by number.
#[derive(Default)]
pub struct Modules {
    functions: BTreeMap<u32, Function>,
    modules: u32,
    next: u32,
}

impl Modules {
    /// Removes the modules of a context.
    pub fn remove_all(&mut self, context: u32) {
        self.functions.retain(|_, function| function.context != context);
    }
}

impl Session<'_> {
    /// Loads a module from PTX. A problem with its text is printed.
    pub fn load_module(&mut self, text: &str) -> Outcome<Raw> {
        let context = self.current()?;
        let said = |code: Code, text: String| {
            eprintln!("fake-cuda: the module cannot be loaded: {text}");
            code
        };
        let module = read(text).map_err(|problem| said(Code::INVALID_PTX, problem))?;
        let (major, minor) = self.settings.capability;
        if module.target as i32 > major * 10 + minor {
            let text = format!("it is for sm_{}, the device is {major}.{minor}", module.target);
            return Err(said(Code::NO_BINARY_FOR_GPU, text));
        }
        let modules = &mut self.modules;
        modules.modules += 1;
        let id = modules.modules;
        for kernel in module.kernels {
            modules.next += 1;
            let function = Function { context, module: id, kernel: Arc::new(kernel) };
            modules.functions.insert(modules.next, function);
        }
        Ok(handle::make(Kind::Module, id))
    }

    pub fn module_function(&mut self, raw: Raw, name: &str) -> Outcome<Raw> {
        let context = self.current()?;
        let id = handle::number(Kind::Module, raw).ok();
        let mut all = self.modules.functions.iter();
        let found = all.find(|(_, function)| {
            (Some(function.module), function.context, function.kernel.name.as_str())
                == (id, context, name)
        });
        found.map(|(id, _)| handle::make(Kind::Function, *id)).ok_or(Code::NOT_FOUND)
    }

    pub fn function(&mut self, raw: Raw) -> Outcome<Function> {
        self.current()?;
        let id = handle::number(Kind::Function, raw).ok();
        match id.and_then(|id| self.modules.functions.get(&id)) {
            Some(function) => Ok(function.clone()),
            None => {
                let text = format!("{raw:?} is no function, or one of a device that was released");
                Err(self.misuse(Code::INVALID_HANDLE, &text))
            }
        }
    }
}
