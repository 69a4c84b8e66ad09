//! Branches, calls, and instructions that several threads execute together.

use super::super::kernel::*;
use super::super::names::Meaning;
use super::super::parser::{Instruction as Words, Operand};
use super::super::types::Type;
use super::super::{Read, problem, select};
use super::{Context, Decoder, missing};

impl Decoder<'_> {
    /// The end of a function: of a kernel the end of the thread.
    pub(super) fn leave(&mut self, context: &Context) {
        let at = self.kernel.code.len();
        if self.here().is_inner {
            self.here().returns.push(at);
        }
        self.emit(context, Operation::Exit, 0, [0; 3]);
    }

    /// False if the instruction is not known.
    pub(super) fn control(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let parts: Vec<&str> = words.words.iter().map(String::as_str).collect();
        let operands = words.operands.as_slice();
        match (&parts[..], operands) {
            (["bra", "uni"] | ["bra"], [Operand::Name(label)]) => {
                let at = self.kernel.code.len();
                let line = context.line;
                self.here().branches.push((at, label.clone(), line));
                self.emit(context, Operation::Branch(0), 0, [0; 3]);
            }
            (["ret", ..], []) => self.leave(context),
            (["exit"], []) => self.emit(context, Operation::Exit, 0, [0; 3]),
            (["trap"], []) => self.emit(context, Operation::Trap, 0, [0; 3]),
            (["membar" | "fence", ..], []) => self.emit(context, Operation::Fence, 0, [0; 3]),
            (["bar", "warp", "sync"], [members]) => {
                let members = self.value(context, members, Type::B32)?;
                self.emit(context, Operation::WarpBarrier, 0, [members; 3]);
            }
            (["bar" | "barrier", "red", ..], _) => return self.barrier_reduce(context, words),
            (
                ["bar", "sync"]
                | ["barrier", "sync"]
                | ["barrier" | "bar", "cta", "sync"]
                | ["barrier", "sync", "aligned"]
                | ["barrier", "cta", "sync", "aligned"],
                [first, rest @ ..],
            ) => {
                let barrier = self.value(context, first, Type::B32)?;
                let threads = match rest {
                    [] => self.constant(0),
                    [threads] => self.value(context, threads, Type::B32)?,
                    _ => return Ok(false),
                };
                self.emit(context, Operation::Barrier, 0, [barrier, threads, threads]);
            }
            (["shfl", "sync", mode, "b32"], [to, value, lane, segments, members]) => {
                return self.shuffle(context, mode, to, [value, lane, segments, members]);
            }
            (["vote", "sync", kind, "pred" | "b32"], [to, predicate, members]) => {
                let combine = match *kind {
                    "all" => Combine::All,
                    "any" => Combine::Any,
                    "uni" => Combine::Uniform,
                    "ballot" => Combine::Ballot,
                    _ => return Ok(false),
                };
                let (d, _) = self.target(context, to)?;
                let predicate = self.value(context, predicate, Type::Predicate)?;
                let members = self.value(context, members, Type::B32)?;
                self.emit(context, Operation::Vote(combine), d, [predicate, members, members]);
            }
            (["activemask", "b32"], [to]) => {
                let (d, _) = self.target(context, to)?;
                self.emit(context, Operation::ActiveMask, d, [0; 3]);
            }
            (["redux", "sync", kind, class], [to, value, members]) => {
                let Some(class) = Type::named(class) else { return Ok(false) };
                let Some(combine) = select::atomic(kind, class) else { return Ok(false) };
                let (d, _) = self.target(context, to)?;
                let value = self.value(context, value, class)?;
                let members = self.value(context, members, Type::B32)?;
                self.emit(context, Operation::Reduce(combine), d, [value, members, members]);
            }
            (["call", ..], _) => return self.call(context, words),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn barrier_reduce(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let has = |word: &str| words.words.iter().any(|part| part == word);
        let combine = match () {
            () if has("popc") => Combine::Count,
            () if has("and") => Combine::All,
            () if has("or") => Combine::Any,
            () => return Ok(false),
        };
        let (to, barrier, threads, predicate) = match words.operands.as_slice() {
            [to, barrier, predicate] => (to, barrier, None, predicate),
            [to, barrier, threads, predicate] => (to, barrier, Some(threads), predicate),
            _ => return Ok(false),
        };
        let (d, _) = self.target(context, to)?;
        let barrier = self.value(context, barrier, Type::B32)?;
        let threads = match threads {
            Some(threads) => self.value(context, threads, Type::B32)?,
            None => self.constant(0),
        };
        let predicate = self.value(context, predicate, Type::Predicate)?;
        self.emit(context, Operation::BarrierReduce(combine), d, [barrier, threads, predicate]);
        Ok(true)
    }

    fn shuffle(
        &mut self,
        context: &Context,
        mode: &str,
        to: &Operand,
        sources: [&Operand; 4],
    ) -> Read<bool> {
        let mode = match mode {
            "up" => ShuffleMode::Up,
            "down" => ShuffleMode::Down,
            "bfly" => ShuffleMode::Butterfly,
            "idx" => ShuffleMode::Index,
            _ => return Ok(false),
        };
        let (to, valid) = match to {
            Operand::Pair(to, valid) => (&**to, Some(self.target(context, valid)?.0)),
            only => (only, None),
        };
        let (d, _) = self.target(context, to)?;
        let mut registers = [0; 4];
        for (at, source) in sources.into_iter().enumerate() {
            registers[at] = self.value(context, source, Type::B32)?;
        }
        let [value, lane, segments, members] = registers;
        self.kernel.shuffles.push(Shuffle { mode, members, valid });
        let number = self.kernel.shuffles.len() as u32 - 1;
        self.emit(context, Operation::Shuffle(number), d, [value, lane, segments]);
        Ok(true)
    }

    /// The function becomes part of its caller: its parameters are the caller's variables.
    fn call(&mut self, context: &Context, words: &Words) -> Read<bool> {
        let missing = || missing(context.line, words);
        let mut operands = words.operands.as_slice();
        let group = |operands: &mut &[Operand]| -> Vec<Operand> {
            if let [Operand::Group(group), rest @ ..] = *operands {
                let group = group.clone();
                *operands = rest;
                return group;
            }
            vec![]
        };
        let results = group(&mut operands);
        let [Operand::Name(name), rest @ ..] = operands else { return Err(missing()) };
        operands = rest;
        let arguments = group(&mut operands);
        let Some(function) = self.source.functions.get(name) else {
            return problem(context.line, format!("the call of {name}, which is not known"));
        };
        if self.calls.contains(name) {
            return problem(context.line, format!("{name} calls itself, which is not known"));
        }
        let function = function.clone();
        let mut bound = vec![];
        let formal = function.results.iter().chain(&function.parameters);
        let actual = results.iter().chain(&arguments);
        if results.len() != function.results.len() || arguments.len() != function.parameters.len() {
            return problem(context.line, format!("{name} is called with other parameters"));
        }
        for (variable, operand) in formal.zip(actual) {
            let Operand::Name(argument) = operand else {
                return problem(context.line, format!("{operand:?} is no parameter"));
            };
            match self.names.get(argument) {
                Some(meaning @ Meaning::Address(_)) => bound.push((variable.name.clone(), meaning)),
                _ => return problem(context.line, format!("{argument} is no parameter")),
            }
        }
        // A guarded call is a branch past it.
        let past = self.kernel.code.len();
        if words.guard.is_some() {
            let skip = Context { inverted: !context.inverted, ..context.clone() };
            self.emit(&skip, Operation::Branch(0), 0, [0; 3]);
        }
        self.calls.push(name.clone());
        self.names.open();
        for (name, meaning) in bound {
            self.names.set(name, meaning);
        }
        self.body(&function, true)?;
        self.names.close();
        self.calls.pop();
        if words.guard.is_some() {
            let end = self.kernel.code.len() as u32;
            self.kernel.code[past].operation = Operation::Branch(end);
        }
        Ok(true)
    }
}
