//! From the text of a module to its kernels. A statement ends at a `;` or with its line.

use std::collections::HashMap;

use super::instructions::{self, Function};
use super::kernel::*;

/// What was read, or why a module cannot be used.
type Read<T = ()> = Result<T, String>;

/// A module as it was read.
pub struct Module {
    /// `.target sm_NN`.
    pub target: u32,
    pub kernels: Vec<Kernel>,
}

/// Reads a module.
pub fn read(text: &str) -> Read<Module> {
    if !text.contains(".version") {
        return Err("no .version: this is no PTX".into());
    }
    let mut module = Module {
        target: 0,
        kernels: vec![],
    };
    let mut reader = None;
    for (line, text) in (1..).zip(text.lines()) {
        let at = |problem| format!("line {line}: {problem}");
        let code = text.split("//").next().unwrap_or("");
        for statement in code
            .split(';')
            .map(|part| part.trim().trim_start_matches('{').trim())
        {
            let words: Vec<&str> = statement.split_whitespace().collect();
            match (words.as_slice(), &mut reader) {
                ([".target", target, ..], None) => {
                    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
                    module.target = number(&digits).map_err(at)? as u32;
                }
                ([".visible", ".entry", name], None) => {
                    reader = Some(Reader::new(name.trim_end_matches('(')));
                }
                ([".version" | ".address_size", ..] | [], None) => {}
                (_, None) => return Err(at(format!("{statement} is not known"))),
                (words, Some(reader)) => reader.statement(line, statement, words).map_err(at)?,
            }
        }
        if code.starts_with('}') {
            let kernel = reader
                .take()
                .ok_or("a kernel ends that has not begun")?
                .finish()?;
            module.kernels.push(kernel);
        }
    }
    if reader.is_some() {
        Err("the text ends within a kernel".into())
    } else {
        Ok(module)
    }
}

/// A kernel that is being read.
struct Reader {
    kernel: Kernel,
    /// Registers by name, with their bytes.
    registers: HashMap<String, (Register, u32)>,
    /// Where parameters and shared variables lie.
    addresses: HashMap<String, u64>,
    constants: HashMap<u64, Register>,
    labels: HashMap<String, u32>,
    /// Instructions that branch, and where to.
    branches: Vec<(usize, String)>,
    /// The operation that is read now, with its line.
    text: (u32, Box<str>),
    guard: (Register, bool),
}

impl Reader {
    fn new(name: &str) -> Reader {
        let kernel = Kernel {
            name: name.into(),
            max_threads: 1024,
            ..Kernel::default()
        };
        Reader {
            kernel,
            registers: HashMap::new(),
            addresses: HashMap::new(),
            constants: HashMap::new(),
            labels: HashMap::new(),
            branches: vec![],
            text: (0, "".into()),
            guard: (0, false),
        }
    }

    fn finish(mut self) -> Read<Kernel> {
        if self.kernel.shared_bytes > crate::device::SHARED_PER_BLOCK {
            return Err(format!("{} has too much shared memory", self.kernel.name));
        }
        for (at, label) in self.branches {
            let target = self
                .labels
                .get(&label)
                .ok_or(format!("there is no label {label}"))?;
            self.kernel.code[at].operation = Operation::Branch(*target);
        }
        Ok(self.kernel)
    }

    fn statement(&mut self, line: u32, text: &str, words: &[&str]) -> Read {
        match words {
            [] | [")" | "}"] | [".pragma" | ".minnctapersm", ..] => {}
            [label] if label.ends_with(':') => {
                let at = self.kernel.code.len() as u32;
                self.labels.insert(label.trim_end_matches(':').into(), at);
            }
            [".maxntid", sizes @ ..] => {
                let sizes = sizes.iter().map(|size| number(size.trim_end_matches(',')));
                self.kernel.max_threads = sizes.product::<Read<u64>>()? as u32;
            }
            [".reg", class, name] => self.declare_registers(class, name)?,
            [".param", declaration @ ..] => {
                let (name, bytes, at) = declared(declaration, self.kernel.parameter_bytes)?;
                self.kernel.parameters.push(Parameter { offset: at, bytes });
                self.kernel.parameter_bytes = at + bytes;
                self.addresses.insert(name, at.into());
            }
            [".shared", declaration @ ..] => {
                let (name, bytes, at) = declared(declaration, self.kernel.shared_bytes)?;
                self.kernel.shared_bytes = at + bytes;
                self.addresses.insert(name, at.into());
            }
            [guard, ..] if guard.starts_with('@') => {
                let name = guard.trim_start_matches('@');
                let register = self.target(name.trim_start_matches('!'))?.0;
                self.guard = (register, name.starts_with('!'));
                self.instruction(line, text[guard.len()..].trim())?;
            }
            _ => {
                self.guard = (self.constant(1), false);
                self.instruction(line, text)?;
            }
        }
        Ok(())
    }

    fn declare_registers(&mut self, class: &str, name: &str) -> Read {
        let bytes = width(class)?;
        let names: Vec<String> = match name.trim_end_matches('>').split_once('<') {
            Some((name, count)) => (0..number(count)?)
                .map(|at| format!("{name}{at}"))
                .collect(),
            None => vec![name.into()],
        };
        for name in names {
            let register = self.register();
            self.registers.insert(name, (register, bytes));
        }
        Ok(())
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

    /// The register of a name, and its bytes.
    fn target(&self, name: &str) -> Read<(Register, u32)> {
        self.registers
            .get(name)
            .copied()
            .ok_or_else(|| format!("{name} is no register"))
    }

    /// The register that has the value of an operand of so many bytes.
    fn value(&mut self, operand: &str, bytes: u32) -> Read<Register> {
        if operand.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return Ok(self.constant(number(operand)? & mask(bytes)));
        }
        if let Some(address) = self.addresses.get(operand) {
            return Ok(self.constant(*address));
        }
        let special = match operand {
            "%tid.x" => Special::Thread,
            "%ntid.x" => Special::BlockSize,
            "%ctaid.x" => Special::Block(0),
            "%ctaid.y" => Special::Block(1),
            _ => return Ok(self.target(operand)?.0),
        };
        let register = self.register();
        self.kernel.specials.push((register, special));
        Ok(register)
    }

    fn emit(&mut self, operation: Operation, d: Register, sources: &[Register]) {
        let source = |at: usize| sources.get(at).copied().unwrap_or_default();
        let (guard, inverted) = self.guard;
        let a = source(0);
        let b = source(1);
        let c = source(2);
        self.kernel.code.push(Instruction {
            operation,
            guard,
            inverted,
            d,
            a,
            b,
            c,
        });
        self.kernel.texts.push(self.text.clone());
    }

    fn instruction(&mut self, line: u32, text: &str) -> Read {
        let (text, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        self.text = (line, text.into());
        let unknown = || format!("the instruction {text} is not known");
        let operands = listed(operands);
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        match (text, operands.as_slice()) {
            ("bra" | "bra.uni", [label]) => {
                self.branches
                    .push((self.kernel.code.len(), (*label).into()));
                self.emit(Operation::Branch(0), 0, &[]);
            }
            ("ret" | "exit", []) => self.emit(Operation::Exit, 0, &[]),
            ("bar.sync", ["0"]) => self.emit(Operation::Barrier, 0, &[]),
            ("mov.b32", [halves, from]) if halves.starts_with('{') => {
                let from = self.value(from, 4)?;
                let functions: [fn(u64) -> u64; 2] = [|a| a & 0xffff, |a| a >> 16];
                for (half, function) in listed(in_brackets(halves)).iter().zip(functions) {
                    let half = self.target(half)?.0;
                    self.emit(Operation::Compute(Function::One(function)), half, &[from]);
                }
            }
            (_, [first, second]) if text.starts_with("ld.") || text.starts_with("st.") => {
                let loads = text.starts_with("ld.");
                let (values, address) = if loads {
                    (first, second)
                } else {
                    (second, first)
                };
                self.access(text, loads, values, address)?;
            }
            (_, [to, sources @ ..]) => {
                let function = instructions::named(text).ok_or_else(unknown)?;
                let bytes = width(text)?;
                let d = self.target(to)?.0;
                let sources = sources.iter().map(|source| self.value(source, bytes));
                let sources: Vec<Register> = sources.collect::<Read<_>>()?;
                let wanted = match function {
                    Function::One(_) => 1,
                    Function::Two(_) => 2,
                    Function::Three(_) => 3,
                };
                if sources.len() != wanted {
                    return Err(format!("{text} has other operands"));
                }
                self.emit(Operation::Compute(function), d, &sources);
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    fn access(&mut self, text: &str, loads: bool, values: &str, address: &str) -> Read {
        let (base, offset) = in_brackets(address)
            .split_once('+')
            .unwrap_or((in_brackets(address), "0"));
        let base = self.value(base, 8)?;
        let mut access = Access {
            offset: number(offset)? as i64,
            bytes: width(text)?,
            ..Access::default()
        };
        let mut has_space = false;
        let mut count = 1;
        let words: Vec<&str> = text.split('.').collect();
        for word in &words[1..words.len() - 1] {
            match *word {
                "volatile" => access.volatile = true,
                "v2" => count = 2,
                space => {
                    has_space = true;
                    access.space = match space {
                        "global" => Space::Global,
                        "shared" => Space::Shared,
                        "param" => Space::Parameter,
                        _ => return Err(format!("the instruction {text} is not known")),
                    }
                }
            }
        }
        let values = if count == 2 {
            listed(in_brackets(values))
        } else {
            vec![values.into()]
        };
        if !has_space || values.len() != count {
            return Err(format!("the instruction {text} is not known"));
        }
        for value in values {
            let register = if loads {
                let (register, bytes) = self.target(&value)?;
                let signed = words[words.len() - 1].starts_with('s') && bytes > access.bytes;
                access.extends = signed.then_some(bytes);
                register
            } else {
                self.value(&value, access.bytes)?
            };
            access.registers.push(register);
        }
        self.kernel.accesses.push(access);
        let number = self.kernel.accesses.len() as u32 - 1;
        self.emit(
            if loads {
                Operation::Load(number)
            } else {
                Operation::Store(number)
            },
            0,
            &[base],
        );
        Ok(())
    }
}

/// Operands that stand between commas, except for those within brackets.
fn listed(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut depth = 0;
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        match found.last_mut() {
            _ if c == ',' && depth == 0 => found.push(String::new()),
            Some(last) => String::push(last, c),
            None => found.push(c.into()),
        }
    }
    found
}

fn in_brackets(text: &str) -> &str {
    text.trim_start_matches(['{', '['])
        .trim_end_matches(['}', ']'])
}

/// A number as its bits.
fn number(text: &str) -> Read<u64> {
    let bits = match text.split_at_checked(2) {
        Some(("0f" | "0d", digits)) => u64::from_str_radix(digits, 16).ok(),
        _ => text.parse::<i128>().ok().map(|value| value as u64),
    };
    bits.ok_or_else(|| format!("{text} is not a number"))
}

/// The bytes of the type that a text ends with.
fn width(text: &str) -> Read<u32> {
    match text.rsplit('.').next() {
        Some("pred" | "b8" | "s8" | "u8") => Ok(1),
        Some("b16" | "s16" | "u16" | "f16") => Ok(2),
        Some("b32" | "s32" | "u32" | "f32") => Ok(4),
        Some("b64" | "s64" | "u64" | "f64") => Ok(8),
        _ => Err(format!("{text} has no type that is known")),
    }
}

/// The name and the bytes of a variable, and where it lies if so much is taken before it.
fn declared(words: &[&str], taken: u32) -> Read<(String, u32, u32)> {
    let (align, class, name) = match words {
        [".align", align, class, name] => (number(align)? as u32, class, name),
        [class, name] => (width(class)?, class, name),
        _ => return Err(format!("the declaration of {words:?} is not known")),
    };
    let name = name.trim_end_matches(',').trim_end_matches(']');
    let (name, count) = name.split_once('[').unwrap_or((name, "1"));
    Ok((
        name.into(),
        width(class)? * number(count)? as u32,
        taken.next_multiple_of(align),
    ))
}
