//! From the words of a kernel to numbers. Functions that it calls become part of it.

use std::collections::HashMap;

use super::arithmetic as on;
use super::kernel::*;
use super::names::{Meaning, Names};
use super::parser::{Function, Instruction as Words, Operand, Source, Statement, Variable};
use super::types::{Space, Type};
use super::{Problem, Read, problem, special};

mod compute;
mod memory;
mod threads;

/// Bytes of the parameters of a kernel, before PTX 8.1 and on every device.
const MOST_PARAMETERS: u32 = 4096;

/// Branches of one function whose labels are not yet known.
#[derive(Default)]
struct Body {
    labels: HashMap<String, u32>,
    branches: Vec<(usize, String, u32)>,
    /// Returns of a function that is part of its caller.
    returns: Vec<usize>,
    is_inner: bool,
}

/// How an instruction under way is guarded, and where it stands.
#[derive(Clone)]
struct Context {
    line: u32,
    text: Box<str>,
    guard: Register,
    inverted: bool,
}

struct Decoder<'a> {
    source: &'a Source,
    globals: &'a dyn Fn(&str) -> Option<u64>,
    kernel: Kernel,
    names: Names,
    constants: HashMap<u64, Register>,
    specials: HashMap<String, Register>,
    /// Where shared variables lie, by function and name.
    shared: HashMap<(String, String), u64>,
    /// Gets the address of the shared memory that the launch adds.
    dynamic: Option<Register>,
    bodies: Vec<Body>,
    /// Functions that are being made part of their callers.
    calls: Vec<String>,
}

/// Makes a kernel ready to be executed; `globals` says where the module's variables lie.
pub fn decode(source: &Source, name: &str, globals: &dyn Fn(&str) -> Option<u64>) -> Read<Kernel> {
    let Some(function) = source.functions.get(name).filter(|function| function.is_kernel) else {
        return problem(0, format!("there is no kernel {name}"));
    };
    let kernel = Kernel {
        name: name.into(),
        parameters: vec![],
        parameter_bytes: 0,
        code: vec![],
        texts: vec![],
        accesses: vec![],
        shuffles: vec![],
        initial: vec![],
        specials: vec![],
        static_shared: 0,
        local: 0,
        max_threads: function.max_threads.map_or(1024, |most| most.min(1024) as u32),
        register_count: 0,
    };
    let mut decoder = Decoder {
        source,
        globals,
        kernel,
        names: Names::new(),
        constants: HashMap::new(),
        specials: HashMap::new(),
        shared: HashMap::new(),
        dynamic: None,
        bodies: vec![],
        calls: vec![name.into()],
    };
    decoder.parameters(&function.parameters);
    decoder.body(function, false)?;
    let kernel = decoder.finish();
    // What an assembler refuses.
    for (what, bytes, most) in [
        ("parameters", kernel.parameter_bytes, MOST_PARAMETERS),
        ("shared memory", kernel.static_shared, crate::device::SHARED_PER_BLOCK),
    ] {
        if bytes > most {
            return problem(function.line, format!("{bytes} bytes of {what}; {most} are allowed"));
        }
    }
    Ok(kernel)
}

impl Decoder<'_> {
    fn finish(mut self) -> Kernel {
        if let Some(register) = self.dynamic {
            self.kernel.static_shared = self.kernel.static_shared.next_multiple_of(16);
            self.kernel.initial[register as usize] = u64::from(self.kernel.static_shared);
        }
        self.kernel.register_count = (self.kernel.initial.len() as u32 / 4).clamp(16, 255);
        self.kernel
    }

    fn parameters(&mut self, parameters: &[Variable]) {
        let mut at = 0u64;
        for parameter in parameters {
            at = at.next_multiple_of(parameter.align);
            let (offset, bytes) = (at as u32, parameter.bytes as u32);
            self.kernel.parameters.push(Parameter { offset, bytes });
            self.names.set(parameter.name.clone(), Meaning::Address(at));
            at += parameter.bytes;
        }
        self.kernel.parameter_bytes = at as u32;
    }

    fn body(&mut self, function: &Function, is_inner: bool) -> Read<()> {
        let Some(body) = &function.body else {
            return problem(function.line, format!("{} has no body", function.name));
        };
        self.bodies.push(Body { is_inner, ..Body::default() });
        for (line, statement) in body {
            self.statement(*line, statement)?;
        }
        // A function may end without a return.
        let context = Context { line: function.line, ..self.always() };
        self.leave(&context);
        let body = self.bodies.pop().expect("it was pushed above");
        let end = self.kernel.code.len() as u32;
        for at in body.returns {
            self.kernel.code[at].operation = Operation::Branch(end);
        }
        for (at, label, line) in body.branches {
            let Some(target) = body.labels.get(&label) else {
                return problem(line, format!("there is no label {label}"));
            };
            self.kernel.code[at].operation = Operation::Branch(*target);
        }
        Ok(())
    }

    fn here(&mut self) -> &mut Body {
        self.bodies.last_mut().expect("statements stand in a body")
    }

    fn statement(&mut self, line: u32, statement: &Statement) -> Read<()> {
        match statement {
            Statement::Open => self.names.open(),
            Statement::Close => self.names.close(),
            Statement::Label(name) => {
                let at = self.kernel.code.len() as u32;
                self.here().labels.insert(name.clone(), at);
            }
            Statement::Registers { class, name, count } => match count {
                None => {
                    let register = self.register();
                    self.names.set(name.clone(), Meaning::Register(register, *class));
                }
                Some(count) => {
                    for index in 0..*count {
                        let register = self.register();
                        let name = format!("{name}{index}");
                        self.names.set(name, Meaning::Register(register, *class));
                    }
                }
            },
            Statement::Variable(variable) => self.variable(line, variable)?,
            Statement::Instruction(words) => self.instruction(line, words)?,
        }
        Ok(())
    }

    fn variable(&mut self, line: u32, variable: &Variable) -> Read<()> {
        let address = match variable.space {
            Space::Shared => {
                let function = self.calls.last().cloned().unwrap_or_default();
                self.place_shared(function, variable)
            }
            Space::Local | Space::Parameter => {
                let at = u64::from(self.kernel.local).next_multiple_of(variable.align);
                self.kernel.local = (at + variable.bytes) as u32;
                // Parameters of calls lie in local memory.
                if variable.space == Space::Parameter { LOCAL_WINDOW + at } else { at }
            }
            _ => match (self.globals)(&variable.name) {
                Some(address) => address,
                None => {
                    let text = format!("{} stands inside of a function", variable.name);
                    return problem(line, text);
                }
            },
        };
        self.names.set(variable.name.clone(), Meaning::Address(address));
        Ok(())
    }

    fn place_shared(&mut self, function: String, variable: &Variable) -> u64 {
        let key = (function, variable.name.clone());
        if let Some(at) = self.shared.get(&key) {
            return *at;
        }
        let at = u64::from(self.kernel.static_shared).next_multiple_of(variable.align);
        self.kernel.static_shared = (at + variable.bytes) as u32;
        self.shared.insert(key, at);
        at
    }

    fn register(&mut self) -> Register {
        // A register that was never written has bits that stand out.
        self.kernel.initial.push(0xdead_beef_dead_beef);
        self.kernel.initial.len() as Register - 1
    }

    fn constant(&mut self, value: u64) -> Register {
        if let Some(register) = self.constants.get(&value) {
            return *register;
        }
        let register = self.register();
        self.kernel.initial[register as usize] = value;
        self.constants.insert(value, register);
        register
    }

    /// A context without a guard.
    fn always(&mut self) -> Context {
        Context { line: 0, text: "".into(), guard: self.constant(1), inverted: false }
    }

    fn emit(&mut self, context: &Context, operation: Operation, d: Register, s: [Register; 3]) {
        self.kernel.code.push(Instruction {
            operation,
            guard: context.guard,
            inverted: context.inverted,
            d,
            a: s[0],
            b: s[1],
            c: s[2],
        });
        self.kernel.texts.push((context.line, context.text.clone()));
    }

    fn one(&mut self, context: &Context, function: Unary, d: Register, a: Register) {
        self.emit(context, Operation::Unary(function), d, [a, a, a]);
    }

    fn two(&mut self, context: &Context, function: Binary, d: Register, a: Register, b: Register) {
        self.emit(context, Operation::Binary(function), d, [a, b, b]);
    }

    fn three(&mut self, context: &Context, function: Ternary, d: Register, s: [Register; 3]) {
        self.emit(context, Operation::Ternary(function), d, s);
    }

    /// What a name stands for; variables of the module get a place when they are first named.
    fn meaning(&mut self, name: &str) -> Option<Meaning> {
        if let Some(meaning) = self.names.get(name) {
            return Some(meaning);
        }
        let variable = self.source.variables.iter().find(|variable| variable.name == name)?;
        if variable.space != Space::Shared {
            return (self.globals)(name).map(Meaning::Address);
        }
        if variable.external {
            let register = match self.dynamic {
                Some(register) => register,
                None => self.register(),
            };
            self.dynamic = Some(register);
            return Some(Meaning::Register(register, Type::U64));
        }
        Some(Meaning::Address(self.place_shared(String::new(), variable)))
    }

    /// The register that has the value of an operand.
    fn value(&mut self, context: &Context, operand: &Operand, class: Type) -> Read<Register> {
        match operand {
            Operand::Integer(value) => Ok(self.constant(value & class.mask())),
            Operand::Single(bits) => Ok(self.constant(u64::from(*bits))),
            Operand::Double(bits) => Ok(self.constant(*bits)),
            Operand::Not(inner) => {
                let inner = self.value(context, inner, class)?;
                let register = self.register();
                self.one(context, on::not_predicate, register, inner);
                Ok(register)
            }
            Operand::Name(name) if name == "WARP_SZ" => Ok(self.constant(32)),
            Operand::Name(name) => match self.meaning(name) {
                Some(Meaning::Register(register, _)) => Ok(register),
                Some(Meaning::Address(address)) => Ok(self.constant(address)),
                None => self.special(context, name),
            },
            other => problem(context.line, format!("{other:?} is no value")),
        }
    }

    fn special(&mut self, context: &Context, name: &str) -> Read<Register> {
        if let Some(register) = self.specials.get(name) {
            return Ok(*register);
        }
        let Some(special) = special::named(name) else {
            return problem(context.line, format!("{name} is not known"));
        };
        let register = self.register();
        self.kernel.specials.push((register, special));
        self.specials.insert(name.into(), register);
        Ok(register)
    }

    /// The register that an operand names as a target.
    fn target(&mut self, context: &Context, operand: &Operand) -> Read<(Register, Type)> {
        match operand {
            Operand::Name(name) if name == "_" => Ok((self.register(), Type::B64)),
            Operand::Name(name) => match self.names.get(name) {
                Some(Meaning::Register(register, class)) => Ok((register, class)),
                _ => problem(context.line, format!("{name} is no register")),
            },
            other => problem(context.line, format!("{other:?} is no register")),
        }
    }

    fn instruction(&mut self, line: u32, words: &Words) -> Read<()> {
        let text: Box<str> = words.words.join(".").into();
        let mut context = Context { line, text, ..self.always() };
        if let Some((name, inverted)) = &words.guard {
            let Some(Meaning::Register(register, _)) = self.names.get(name) else {
                return problem(line, format!("{name} is no predicate"));
            };
            context.guard = register;
            context.inverted = *inverted;
        }
        let done = match words.words[0].as_str() {
            "ld" | "ldu" | "st" | "atom" | "red" | "cvta" => self.memory(&context, words)?,
            "bra" | "ret" | "exit" | "trap" | "bar" | "barrier" | "shfl" | "vote"
            | "activemask" | "redux" | "membar" | "fence" | "call" => {
                self.control(&context, words)?
            }
            _ => self.compute(&context, words)?,
        };
        if done {
            return Ok(());
        }
        problem(line, format!("the instruction {} is not known", context.text))
    }
}

/// What continues a value of one type in a register of another class, if anything.
fn extension(from: Type, class: Type) -> Option<Unary> {
    if from.is_signed() && class.bytes() > from.bytes() {
        super::convert::between_integers(from, class.bytes())
    } else {
        None
    }
}

/// The error of an operand that is missing.
fn missing(line: u32, words: &Words) -> Problem {
    Problem { line, text: format!("{} lacks an operand", words.words.join(".")) }
}
