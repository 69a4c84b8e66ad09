//! Instructions that only compute.

use super::super::Read;
use super::super::kernel::*;
use super::super::parser::{Instruction as Words, Operand};
use super::super::select::{self, Function as Chosen};
use super::super::types::Type;
use super::{Context, Decoder, extension, on};

impl Decoder<'_> {
    /// Instructions that compute; false if this one is not known.
    pub(super) fn compute(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let (name, operands) = (words.words[0].as_str(), words.operands.as_slice());
        match (name, operands) {
            ("mov", [Operand::Vector(parts), from]) => self.unpack(context, parts, from),
            ("mov", [to, Operand::Vector(parts)]) => self.pack(context, to, parts),
            ("setp" | "set", [_, _, _, ..]) => self.compare(context, words),
            ("bfi", [to, a, b, start, length]) => {
                let Some(class) = words.words.get(1).and_then(|word| Type::named(word)) else {
                    return Ok(false);
                };
                let (d, _) = self.target(context, to)?;
                let a = self.value(context, a, class)?;
                let b = self.value(context, b, class)?;
                let start = self.value(context, start, Type::U32)?;
                let length = self.value(context, length, Type::U32)?;
                let place = self.register();
                self.two(context, on::join16, place, start, length);
                let function: Ternary = match class {
                    Type::B32 => on::bit_field_insert::<u32>,
                    Type::B64 => on::bit_field_insert::<u64>,
                    _ => return Ok(false),
                };
                self.three(context, function, d, [a, b, place]);
                Ok(true)
            }
            ("cvt", [to, high, low]) => self.convert_pair(context, words, to, [high, low]),
            (_, [to, sources @ ..]) => self.plain(context, words, to, sources),
            _ => Ok(false),
        }
    }

    fn plain(
        &mut self,
        context: &Context,
        words: &Words,
        to: &Operand,
        sources: &[Operand],
    ) -> Read<bool> {
        let Some(chosen) = select::select(&words.words) else { return Ok(false) };
        let (d, class) = self.target(context, to)?;
        let mut registers = [0; 3];
        if sources.len() > 3 {
            return Ok(false);
        }
        for (at, source) in sources.iter().enumerate() {
            registers[at] = self.value(context, source, chosen.types[at])?;
        }
        match (chosen.function, sources.len()) {
            (Chosen::Unary(function), 1) => self.one(context, function, d, registers[0]),
            (Chosen::Binary(function), 2) => {
                self.two(context, function, d, registers[0], registers[1]);
            }
            (Chosen::Ternary(function), 3) => self.three(context, function, d, registers),
            _ => return Ok(false),
        }
        if let Some(from) = chosen.extend_from {
            self.extend(context, d, from, class);
        }
        Ok(true)
    }

    /// Continues a signed value to the width of its register.
    fn extend(&mut self, context: &Context, register: Register, from: Type, class: Type) {
        if let Some(function) = extension(from, class) {
            self.one(context, function, register, register);
        }
    }

    /// `cvt.rn.f16x2.f32 d, high, low` and its like.
    fn convert_pair(
        &mut self,
        context: &Context,
        words: &Words,
        to: &Operand,
        sources: [&Operand; 2],
    ) -> Read<bool> {
        let mut single = words.words.clone();
        let Some(pair) = single.iter_mut().find(|word| word.ends_with("x2")) else {
            return Ok(false);
        };
        pair.truncate(pair.len() - 2);
        let Some(chosen) = select::select(&single) else { return Ok(false) };
        let Chosen::Unary(function) = chosen.function else { return Ok(false) };
        let (d, _) = self.target(context, to)?;
        let mut parts = [0; 2];
        for (at, source) in sources.into_iter().enumerate() {
            let value = self.value(context, source, chosen.types[0])?;
            parts[at] = self.register();
            self.one(context, function, parts[at], value);
        }
        self.two(context, on::join16, d, parts[1], parts[0]);
        Ok(true)
    }

    fn unpack(&mut self, context: &Context, parts: &[Operand], from: &Operand) -> Read<bool> {
        let functions: &[Unary] = match (&*context.text, parts.len()) {
            ("mov.b64", 2) => &[on::part::<32, 0>, on::part::<32, 1>],
            ("mov.b32", 2) => &[on::part::<16, 0>, on::part::<16, 1>],
            ("mov.b64", 4) => {
                &[on::part::<16, 0>, on::part::<16, 1>, on::part::<16, 2>, on::part::<16, 3>]
            }
            _ => return Ok(false),
        };
        let from = self.value(context, from, Type::B64)?;
        for (part, function) in parts.iter().zip(functions) {
            let (d, _) = self.target(context, part)?;
            self.one(context, *function, d, from);
        }
        Ok(true)
    }

    fn pack(&mut self, context: &Context, to: &Operand, parts: &[Operand]) -> Read<bool> {
        let (d, _) = self.target(context, to)?;
        let mut values = vec![];
        for part in parts {
            values.push(self.value(context, part, Type::B32)?);
        }
        match (&*context.text, values[..].len()) {
            ("mov.b64", 2) => self.two(context, on::join32, d, values[0], values[1]),
            ("mov.b32", 2) => self.two(context, on::join16, d, values[0], values[1]),
            ("mov.b64", 4) => {
                let (low, high) = (self.register(), self.register());
                self.two(context, on::join16, low, values[0], values[1]);
                self.two(context, on::join16, high, values[2], values[3]);
                self.two(context, on::join32, d, low, high);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `setp` and `set`, with a second target and with a predicate that is combined.
    fn compare(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let parts: Vec<&str> = words.words.iter().map(String::as_str).collect();
        let named = |word: &str| Type::named(word);
        let (comparison, combine, result, class) = match parts[..] {
            ["setp", comparison, class] => (comparison, None, None, named(class)),
            ["setp", comparison, combine, class] => (comparison, Some(combine), None, named(class)),
            ["set", comparison, result, class] => (comparison, None, named(result), named(class)),
            _ => return Ok(false),
        };
        let Some(class) = class else { return Ok(false) };
        let Some(function) = select::comparison(comparison, class) else { return Ok(false) };
        let a = self.value(context, &words.operands[1], class)?;
        let b = self.value(context, &words.operands[2], class)?;
        let holds = self.register();
        self.two(context, function, holds, a, b);
        if parts[0] == "set" {
            let (d, _) = self.target(context, &words.operands[0])?;
            let yes = match result {
                Some(Type::F32) => u64::from(1f32.to_bits()),
                Some(Type::U32 | Type::S32 | Type::B32) => 0xffff_ffff,
                _ => return Ok(false),
            };
            let (yes, no) = (self.constant(yes), self.constant(0));
            self.three(context, on::select, d, [yes, no, holds]);
            return Ok(true);
        }
        let (first, second) = match &words.operands[0] {
            Operand::Pair(first, second) => (&**first, Some(&**second)),
            only => (only, None),
        };
        let other = match (combine, words.operands.get(3)) {
            (Some(combine), Some(other)) => {
                let function: Binary = match combine {
                    "and" => on::and,
                    "or" => on::or,
                    "xor" => on::xor,
                    _ => return Ok(false),
                };
                Some((function, self.value(context, other, Type::Predicate)?))
            }
            (None, None) => None,
            _ => return Ok(false),
        };
        let fails = self.register();
        if second.is_some() {
            self.one(context, on::not_predicate, fails, holds);
        }
        for (target, value) in [(Some(first), holds), (second, fails)] {
            let Some(target) = target else { continue };
            let (d, _) = self.target(context, target)?;
            match other {
                Some((function, other)) => self.two(context, function, d, value, other),
                None => self.one(context, on::copy, d, value),
            }
        }
        Ok(true)
    }
}
