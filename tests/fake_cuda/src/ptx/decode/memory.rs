//! Loads, stores, atomic operations and addresses.

use super::super::kernel::*;
use super::super::parser::{Instruction as Words, Operand};
use super::super::types::{Space, Type};
use super::super::{Read, select};
use super::{Context, Decoder, extension, missing, on};

/// The modifiers of a load, a store or an atomic operation.
struct Modifiers {
    space: Space,
    class: Type,
    count: u32,
    shared_use: bool,
    /// What is left: the operation of an atomic.
    rest: Vec<String>,
}

fn modifiers(words: &Words) -> Option<Modifiers> {
    let (class, others) = words.words[1..].split_last()?;
    let mut found = Modifiers {
        space: Space::Generic,
        class: Type::named(class)?,
        count: 1,
        shared_use: false,
        rest: vec![],
    };
    for word in others {
        match word.as_str() {
            "v2" => found.count = 2,
            "v4" => found.count = 4,
            "volatile" | "relaxed" | "acquire" | "release" | "acq_rel" => found.shared_use = true,
            // Scopes and caches change nothing here.
            "weak" | "cta" | "gpu" | "sys" | "nc" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb"
            | "wt" => {}
            name => match Space::named(name) {
                Some(space) => found.space = space,
                None => found.rest.push(name.into()),
            },
        }
    }
    Some(found)
}

impl Decoder<'_> {
    /// False if the instruction is not known.
    pub(super) fn memory(&mut self, context: &Context, words: &Words) -> Read<bool> {
        if words.words[0] == "cvta" {
            return self.convert_address(context, words);
        }
        let Some(found) = modifiers(words) else { return Ok(false) };
        match words.words[0].as_str() {
            "ld" | "ldu" if found.rest.is_empty() => self.load(context, words, &found),
            "st" if found.rest.is_empty() => self.store(context, words, &found),
            "atom" | "red" if found.rest.len() == 1 && found.count == 1 => {
                self.atomic(context, words, &found)
            }
            _ => Ok(false),
        }
    }

    fn access(&mut self, found: &Modifiers, offset: i64) -> Access {
        Access {
            space: found.space,
            offset,
            bytes: found.class.bytes(),
            count: found.count,
            registers: [0; 4],
            extend: None,
            combine: None,
            swap: false,
            shared_use: found.shared_use,
        }
    }

    fn add_access(&mut self, access: Access) -> u32 {
        self.kernel.accesses.push(access);
        self.kernel.accesses.len() as u32 - 1
    }

    fn address(&mut self, context: &Context, operand: &Operand) -> Read<(Register, i64)> {
        match operand {
            Operand::Address(base, offset) => Ok((self.value(context, base, Type::U64)?, *offset)),
            other => Ok((self.value(context, other, Type::U64)?, 0)),
        }
    }

    fn load(&mut self, context: &Context, words: &Words, found: &Modifiers) -> Read<bool> {
        let [to, from] = words.operands.as_slice() else { return Ok(false) };
        let (base, offset) = self.address(context, from)?;
        let mut access = self.access(found, offset);
        let targets = match to {
            Operand::Vector(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if targets.len() != found.count as usize {
            return Ok(false);
        }
        for (at, target) in targets.iter().enumerate() {
            let (register, class) = self.target(context, target)?;
            access.registers[at] = register;
            access.extend = extension(found.class, class);
        }
        let number = self.add_access(access);
        self.emit(context, Operation::Load(number), 0, [base, base, base]);
        Ok(true)
    }

    fn store(&mut self, context: &Context, words: &Words, found: &Modifiers) -> Read<bool> {
        let [to, from] = words.operands.as_slice() else { return Ok(false) };
        let (base, offset) = self.address(context, to)?;
        let mut access = self.access(found, offset);
        let sources = match from {
            Operand::Vector(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        if sources.len() != found.count as usize {
            return Ok(false);
        }
        for (at, source) in sources.iter().enumerate() {
            access.registers[at] = self.value(context, source, found.class)?;
        }
        let number = self.add_access(access);
        self.emit(context, Operation::Store(number), 0, [base, base, base]);
        Ok(true)
    }

    /// `atom` gives the old value, `red` does not.
    fn atomic(&mut self, context: &Context, words: &Words, found: &Modifiers) -> Read<bool> {
        let mut operands = words.operands.iter();
        let missing = || missing(context.line, words);
        let d = if words.words[0] == "atom" {
            self.target(context, operands.next().ok_or_else(missing)?)?.0
        } else {
            self.register()
        };
        let (base, offset) = self.address(context, operands.next().ok_or_else(missing)?)?;
        let mut access = self.access(found, offset);
        let b = self.value(context, operands.next().ok_or_else(missing)?, found.class)?;
        let mut c = b;
        if found.rest[0] == "cas" {
            access.swap = true;
            c = self.value(context, operands.next().ok_or_else(missing)?, found.class)?;
        } else {
            access.combine = select::atomic(&found.rest[0], found.class);
            if access.combine.is_none() {
                return Ok(false);
            }
        }
        let number = self.add_access(access);
        self.emit(context, Operation::Atomic(number), d, [base, b, c]);
        Ok(true)
    }

    /// `cvta.SPACE` makes an address one among all, `cvta.to.SPACE` the reverse.
    fn convert_address(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let parts: Vec<&str> = words.words[1..].iter().map(String::as_str).collect();
        let (to, space) = match parts[..] {
            ["to", space, "u64"] => (true, space),
            [space, "u64"] => (false, space),
            _ => return Ok(false),
        };
        let [target, from] = words.operands.as_slice() else { return Ok(false) };
        let window = match Space::named(space) {
            Some(Space::Global | Space::Constant) => 0,
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            _ => return Ok(false),
        };
        let (d, _) = self.target(context, target)?;
        let from = self.value(context, from, Type::U64)?;
        let window = self.constant(window);
        let function: Binary = if to { on::sub::<u64> } else { on::add::<u64> };
        self.two(context, function, d, from, window);
        Ok(true)
    }
}
