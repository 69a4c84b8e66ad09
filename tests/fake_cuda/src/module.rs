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
    /// What was read last: programs load one text into each device.
    last: Option<Text>,
}

/// A text, and what was read from it.
struct Text {
    text: String,
    target: u32,
    kernels: Vec<Arc<Kernel>>,
}

impl Modules {
    /// Removes the modules of a context.
    pub fn remove_all(&mut self, context: u32) {
        self.functions
            .retain(|_, function| function.context != context);
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
        if self
            .modules
            .last
            .as_ref()
            .is_none_or(|last| last.text != text)
        {
            let module = read(text).map_err(|problem| said(Code::INVALID_PTX, problem))?;
            let kernels = module.kernels.into_iter().map(Arc::new).collect();
            let text = text.to_owned();
            let target = module.target;
            self.modules.last = Some(Text {
                text,
                target,
                kernels,
            });
        }
        let (major, minor) = self.settings.capability;
        let modules = &mut self.modules;
        let Text {
            target, kernels, ..
        } = modules.last.as_ref().expect("it was read");
        if *target as i32 > major * 10 + minor {
            let text = format!("it is for sm_{target}, the device is {major}.{minor}");
            return Err(said(Code::NO_BINARY_FOR_GPU, text));
        }
        modules.modules += 1;
        let id = modules.modules;
        for kernel in kernels {
            modules.next += 1;
            let function = Function {
                context,
                module: id,
                kernel: Arc::clone(kernel),
            };
            modules.functions.insert(modules.next, function);
        }
        Ok(handle::make(Kind::Module, id))
    }

    pub fn module_function(&mut self, raw: Raw, name: &str) -> Outcome<Raw> {
        let context = self.current()?;
        let id = handle::number(Kind::Module, raw).ok();
        // Those of the module that was loaded last, which programs ask for, are the last.
        let mut all = self.modules.functions.iter().rev();
        let found = all.find(|(_, function)| {
            (
                Some(function.module),
                function.context,
                function.kernel.name.as_str(),
            ) == (id, context, name)
        });
        found
            .map(|(id, _)| handle::make(Kind::Function, *id))
            .ok_or(Code::NOT_FOUND)
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
