//! Modules: kernels and variables from PTX.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::codes::{Code, Outcome};
use crate::handle::{self, Kind, Raw};
use crate::ptx::kernel::Kernel;
use crate::ptx::parser::{self, Source};
use crate::ptx::types::Space;
use crate::ptx::{Problem, decode};
use crate::session::Session;

/// A variable of a module in device memory.
#[derive(Clone, Copy)]
struct Global {
    at: u64,
    bytes: u64,
}

struct Module {
    context: u32,
    kernels: HashMap<String, Arc<Kernel>>,
    globals: HashMap<String, Global>,
    /// Functions that were asked for, by name.
    functions: HashMap<String, u32>,
}

/// A kernel that a handle stands for.
#[derive(Clone)]
pub struct Function {
    pub context: u32,
    module: u32,
    pub kernel: Arc<Kernel>,
    /// How much shared memory launches may add.
    pub dynamic_shared: u32,
    pub carveout: i32,
}

/// All modules and functions by number.
#[derive(Default)]
pub struct Modules {
    all: BTreeMap<u32, Module>,
    functions: BTreeMap<u32, Function>,
    next: u32,
}

/// The newest PTX that this driver takes, in tenths.
const NEWEST: u32 = 90;

impl Modules {
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Removes the modules of a context; their memory goes with it.
    pub fn remove_all(&mut self, context: u32) {
        self.all.retain(|_, module| module.context != context);
        self.functions.retain(|_, function| function.context != context);
    }
}

impl Session<'_> {
    /// Loads a module from PTX. A problem with its text is printed and returned as text.
    pub fn load_module(&mut self, image: &[u8]) -> Result<Raw, (Code, String)> {
        let context = self.current().map_err(|code| (code, String::new()))?;
        let said = |code: Code, text: String| {
            eprintln!("fake-cuda: the module cannot be loaded: {text}");
            (code, text)
        };
        if image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            let text = "only PTX can be executed here, and this is machine code".into();
            return Err(said(Code::NO_BINARY_FOR_GPU, text));
        }
        let invalid = |problem: Problem| said(Code::INVALID_PTX, problem.to_string());
        let Ok(text) = std::str::from_utf8(image) else {
            return Err(said(Code::INVALID_IMAGE, "this is no text".into()));
        };
        let mut source = parser::parse(text).map_err(invalid)?;
        for path in &self.settings.modules {
            let other = std::fs::read_to_string(path).map_err(|error| {
                said(Code::FILE_NOT_FOUND, format!("FAKE_CUDA_MODULE: {error}"))
            })?;
            let other = parser::parse(&other).map_err(invalid)?;
            if other.kernels().eq(source.kernels()) {
                source = other;
                break;
            }
        }
        let (major, minor) = self.settings.capability;
        if source.target as i32 > major * 10 + minor {
            let text = format!("it is for sm_{}, the device is {major}.{minor}", source.target);
            return Err(said(Code::NO_BINARY_FOR_GPU, text));
        }
        if source.version > NEWEST {
            let text = format!("it is PTX {}.{}", source.version / 10, source.version % 10);
            return Err(said(Code::UNSUPPORTED_PTX_VERSION, text));
        }
        let globals = self.place_globals(context, &source);
        let globals = globals.map_err(|code| (code, String::new()))?;
        let place = |name: &str| globals.get(name).map(|global| global.at);
        let mut kernels = HashMap::new();
        for function in source.functions.values().filter(|function| function.is_kernel) {
            match decode::decode(&source, &function.name, &place) {
                Ok(kernel) => kernels.insert(function.name.clone(), Arc::new(kernel)),
                Err(problem) => {
                    self.release_globals(&globals);
                    let text = format!("{}: {problem}", function.name);
                    return Err(said(Code::INVALID_PTX, text));
                }
            };
        }
        self.modules.next += 1;
        let id = self.modules.next;
        let module = Module { context, kernels, globals, functions: HashMap::new() };
        self.modules.all.insert(id, module);
        Ok(handle::make(Kind::Module, id))
    }

    fn place_globals(&mut self, context: u32, source: &Source) -> Outcome<HashMap<String, Global>> {
        let mut globals = HashMap::new();
        for variable in &source.variables {
            if !matches!(variable.space, Space::Global | Space::Constant) || variable.external {
                continue;
            }
            let at = match self.allocate_in(context, variable.bytes.max(1)) {
                Ok(at) => at,
                Err(code) => {
                    self.release_globals(&globals);
                    return Err(code);
                }
            };
            globals.insert(variable.name.clone(), Global { at, bytes: variable.bytes });
            let region = self.memory.starting_at(at).expect("it was allocated just now");
            if let Some(initial) = &variable.initial {
                let bytes = initial.len().min(variable.bytes as usize);
                // SAFETY: the region has `variable.bytes` bytes, and the text at least as many.
                unsafe { std::ptr::copy_nonoverlapping(initial.as_ptr(), region.data, bytes) };
            }
            // Variables without a value are zero.
            let all = 0..variable.bytes;
            if let Some(initialised) = &mut region.initialised {
                initialised.set(all, true);
            }
        }
        Ok(globals)
    }

    fn release_globals(&mut self, globals: &HashMap<String, Global>) {
        for global in globals.values() {
            self.memory.release(global.at, "the end of its module".into());
        }
    }

    fn module(&mut self, raw: Raw) -> Outcome<u32> {
        self.current()?;
        let id = handle::number(Kind::Module, raw).ok();
        match id.filter(|id| self.modules.all.contains_key(id)) {
            Some(id) => Ok(id),
            None => {
                let text = format!("{raw:?} is no module, or one that was unloaded");
                Err(self.misuse(Code::INVALID_HANDLE, &text))
            }
        }
    }

    pub fn unload_module(&mut self, raw: Raw) -> Outcome {
        let id = self.module(raw)?;
        if let Some(module) = self.modules.all.remove(&id) {
            self.release_globals(&module.globals);
        }
        self.modules.functions.retain(|_, function| function.module != id);
        Ok(())
    }

    pub fn module_function(&mut self, raw: Raw, name: &str) -> Outcome<Raw> {
        let id = self.module(raw)?;
        let next = self.modules.functions.last_key_value().map_or(1, |(last, _)| last + 1);
        let module = self.modules.all.get_mut(&id).ok_or(Code::INVALID_HANDLE)?;
        let kernel = Arc::clone(module.kernels.get(name).ok_or(Code::NOT_FOUND)?);
        let known = *module.functions.entry(name.into()).or_insert(next);
        let function = Function {
            context: module.context,
            module: id,
            dynamic_shared: crate::device::SHARED_PER_BLOCK.saturating_sub(kernel.static_shared),
            kernel,
            carveout: -1,
        };
        self.modules.functions.entry(known).or_insert(function);
        Ok(handle::make(Kind::Function, known))
    }

    /// Where a variable of a module lies, and its size.
    pub fn module_global(&mut self, raw: Raw, name: &str) -> Outcome<(u64, usize)> {
        let id = self.module(raw)?;
        let module = self.modules.all.get(&id).ok_or(Code::INVALID_HANDLE)?;
        let global = module.globals.get(name).ok_or(Code::NOT_FOUND)?;
        Ok((global.at, global.bytes as usize))
    }

    pub fn function(&mut self, raw: Raw) -> Outcome<&mut Function> {
        self.current()?;
        let id = handle::number(Kind::Function, raw).ok();
        let Some(id) = id.filter(|id| self.modules.functions.contains_key(id)) else {
            let text = format!("{raw:?} is no function, or one whose module was unloaded");
            return Err(self.misuse(Code::INVALID_HANDLE, &text));
        };
        self.modules.functions.get_mut(&id).ok_or(Code::INVALID_HANDLE)
    }
}
