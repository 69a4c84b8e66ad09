//! A module of PTX as a tree. Instructions keep their words; `decode` gives them a meaning.

use std::collections::{BTreeSet, HashMap};

use super::lexer::{Located, Token, tokens};
use super::types::{Space, Type};
use super::{Read, problem};

/// A variable of any space but registers: also a parameter.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    pub bytes: u64,
    pub align: u64,
    /// Its first bytes; the others are zero. `None` if it has no initial value.
    pub initial: Option<Vec<u8>>,
    /// Declared elsewhere; in shared memory: as large as the launch says.
    pub external: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    Name(String),
    /// An integer, as the bits of 64.
    Integer(u64),
    Single(u32),
    Double(u64),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `[name + offset]`.
    Address(Box<Operand>, i64),
    /// `p|q`.
    Pair(Box<Operand>, Box<Operand>),
    /// `(a, b)`.
    Group(Vec<Operand>),
    /// `!p`.
    Not(Box<Operand>),
}

#[derive(Clone, Debug)]
pub struct Instruction {
    /// A predicate register; true if the instruction runs where it does not hold.
    pub guard: Option<(String, bool)>,
    /// The operation with its modifiers.
    pub words: Vec<String>,
    pub operands: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Label(String),
    /// So many registers `NAME0`, `NAME1`, ...; without a count one register `NAME`.
    Registers {
        class: Type,
        name: String,
        count: Option<u64>,
    },
    Variable(Variable),
    Instruction(Instruction),
    /// The beginning and the end of names that are known only there.
    Open,
    Close,
}

/// A statement and its line.
pub type Placed = (u32, Statement);

#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub is_kernel: bool,
    pub results: Vec<Variable>,
    pub parameters: Vec<Variable>,
    pub max_threads: Option<u64>,
    /// `None` if it is only declared.
    pub body: Option<Vec<Placed>>,
    pub line: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `.version`, in tenths.
    pub version: u32,
    /// `.target sm_NN`.
    pub target: u32,
    pub variables: Vec<Variable>,
    pub functions: HashMap<String, Function>,
}

impl Source {
    /// The names of all kernels, in the order of the alphabet.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        let kernels = self.functions.values().filter(|function| function.is_kernel);
        let names: BTreeSet<&str> = kernels.map(|function| function.name.as_str()).collect();
        names.into_iter()
    }
}

/// Reads a module.
pub fn parse(text: &str) -> Read<Source> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut source = Source::default();
    while parser.peek().is_some() {
        parser.top(&mut source)?;
    }
    if source.version == 0 {
        return problem(1, "no .version: this is no PTX");
    }
    Ok(source)
}

struct Parser {
    tokens: Vec<Located>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|located| &located.token)
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |located| located.line)
    }

    fn next(&mut self) -> Read<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        match token {
            Some(token) => Ok(token),
            None => problem(self.line(), "the text ends too early"),
        }
    }

    fn is(&self, mark: char) -> bool {
        self.peek() == Some(&Token::Mark(mark))
    }

    fn accept(&mut self, mark: char) -> bool {
        let found = self.is(mark);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Read<()> {
        if self.accept(mark) {
            return Ok(());
        }
        problem(self.line(), format!("{mark:?} was expected, not {:?}", self.peek()))
    }

    fn word(&mut self) -> Read<String> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            other => problem(self.line(), format!("a name was expected, not {other:?}")),
        }
    }

    fn integer(&mut self) -> Read<u64> {
        match self.next()? {
            Token::Integer(value) => Ok(value),
            Token::Mark('-') => Ok(self.integer()?.wrapping_neg()),
            other => problem(self.line(), format!("a number was expected, not {other:?}")),
        }
    }

    /// The rest of a directive that has no meaning here.
    fn skip_line(&mut self) {
        let line = self.line();
        while self.peek().is_some() && self.line() == line {
            self.at += 1;
        }
    }

    fn top(&mut self, source: &mut Source) -> Read<()> {
        if self.accept(';') {
            return Ok(());
        }
        let start = self.at;
        let word = self.word()?;
        match word.as_str() {
            ".version" => {
                // The lexer takes `6.0` for two numbers or for one word.
                let text = match self.next()? {
                    Token::Integer(value) => value.to_string(),
                    Token::Word(word) => word,
                    _ => return problem(self.line(), "a version was expected"),
                };
                let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
                let part = |text: &str| text.parse::<u32>().unwrap_or(0);
                source.version = part(major) * 10 + part(minor);
            }
            ".target" => {
                let name = self.word()?;
                let digits: String = name.chars().filter(char::is_ascii_digit).collect();
                source.target = digits.parse().unwrap_or(0);
                self.at -= 1;
                self.skip_line();
            }
            ".address_size" => {
                if self.integer()? != 64 {
                    return problem(self.line(), "only addresses of 64 bits are known");
                }
            }
            ".file" | ".section" | ".loc" => {
                self.skip_line();
                if word == ".section" {
                    self.skip_braces()?;
                }
            }
            _ => {
                self.at = start;
                self.declaration(source)?;
            }
        }
        Ok(())
    }

    fn skip_braces(&mut self) -> Read<()> {
        if !self.accept('{') {
            return Ok(());
        }
        let mut depth = 1;
        while depth > 0 {
            match self.next()? {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn declaration(&mut self, source: &mut Source) -> Read<()> {
        let mut external = false;
        loop {
            let word = self.word()?;
            match word.as_str() {
                ".visible" | ".weak" | ".common" => {}
                ".extern" => external = true,
                ".entry" => {
                    let function = self.function(true)?;
                    source.functions.insert(function.name.clone(), function);
                    return Ok(());
                }
                ".func" => {
                    let function = self.function(false)?;
                    let known = source.functions.get(&function.name);
                    if function.body.is_some() || known.is_none() {
                        source.functions.insert(function.name.clone(), function);
                    }
                    return Ok(());
                }
                ".global" | ".const" | ".shared" => {
                    let space = Space::named(&word[1..]).unwrap_or(Space::Global);
                    let variables = self.variables(space, external)?;
                    source.variables.extend(variables);
                    return Ok(());
                }
                _ => return problem(self.line(), format!("{word} is not known here")),
            }
        }
    }

    fn function(&mut self, is_kernel: bool) -> Read<Function> {
        let line = self.line();
        let results = if self.is('(') { self.parameters()? } else { vec![] };
        let name = self.word()?;
        let parameters = if self.is('(') { self.parameters()? } else { vec![] };
        let mut max_threads = None;
        while let Some(Token::Word(word)) = self.peek().cloned() {
            self.at += 1;
            match word.as_str() {
                ".maxntid" | ".reqntid" => {
                    let mut product = self.integer()?;
                    while self.accept(',') {
                        product *= self.integer()?;
                    }
                    max_threads = Some(product);
                }
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" => {
                    self.integer()?;
                }
                ".pragma" => {
                    self.next()?;
                    self.expect(';')?;
                }
                ".noreturn" => {}
                _ => return problem(line, format!("{word} is not known here")),
            }
        }
        let body = if self.accept(';') { None } else { Some(self.body()?) };
        Ok(Function { name, is_kernel, results, parameters, max_threads, body, line })
    }

    fn parameters(&mut self) -> Read<Vec<Variable>> {
        self.expect('(')?;
        let mut found = vec![];
        while !self.accept(')') {
            let word = self.word()?;
            if word != ".param" && word != ".reg" {
                return problem(self.line(), format!("{word} is no parameter"));
            }
            found.push(self.variable(Space::Parameter, false)?);
            self.accept(',');
        }
        Ok(found)
    }

    fn variables(&mut self, space: Space, external: bool) -> Read<Vec<Variable>> {
        let mut found = vec![self.variable(space, external)?];
        while self.accept(',') {
            let name = self.word()?;
            let first = found[0].clone();
            found.push(Variable { name, initial: None, ..first });
        }
        self.expect(';')?;
        Ok(found)
    }

    fn variable(&mut self, space: Space, external: bool) -> Read<Variable> {
        let (mut align, mut element, mut count) = (0, None, 1);
        let name = loop {
            let word = self.word()?;
            match word.as_str() {
                ".align" => align = self.integer()?,
                // Words about what a pointer points to.
                ".ptr" | ".global" | ".shared" | ".const" | ".local" => {}
                ".v2" => count = 2,
                ".v4" => count = 4,
                _ => match word.strip_prefix('.').and_then(Type::named) {
                    Some(class) => element = Some(class),
                    None if word.starts_with('.') => {
                        return problem(self.line(), format!("{word} is not known here"));
                    }
                    None => break word,
                },
            }
        };
        let Some(element) = element else {
            return problem(self.line(), format!("{name} has no type"));
        };
        let mut empty = false;
        while self.accept('[') {
            if self.accept(']') {
                empty = true;
                continue;
            }
            count *= self.integer()?;
            self.expect(']')?;
        }
        let width = u64::from(element.bytes());
        let bytes = if empty { 0 } else { width * count };
        let initial = if self.accept('=') { Some(self.initial(width)?) } else { None };
        let bytes = match &initial {
            Some(initial) if empty => initial.len() as u64,
            _ => bytes,
        };
        let align = align.max(width);
        Ok(Variable { name, space, bytes, align, initial, external })
    }

    fn initial(&mut self, width: u64) -> Read<Vec<u8>> {
        let mut bytes = vec![];
        if self.accept('{') {
            while !self.accept('}') {
                bytes.extend(self.initial(width)?);
                self.accept(',');
            }
            return Ok(bytes);
        }
        let value = match self.peek() {
            Some(Token::Single(bits)) => u64::from(*bits),
            Some(Token::Double(bits)) => *bits,
            Some(Token::Integer(_) | Token::Mark('-')) => {
                let value = self.integer()?;
                self.at -= 1;
                value
            }
            other => {
                let text = format!("the initial value {other:?} is not known");
                return problem(self.line(), text);
            }
        };
        self.at += 1;
        Ok(value.to_le_bytes()[..width as usize].to_vec())
    }

    fn body(&mut self) -> Read<Vec<Placed>> {
        self.expect('{')?;
        let mut found = vec![];
        let mut depth = 1;
        loop {
            let line = self.line();
            if self.accept('{') {
                depth += 1;
                found.push((line, Statement::Open));
            } else if self.accept('}') {
                depth -= 1;
                if depth == 0 {
                    return Ok(found);
                }
                found.push((line, Statement::Close));
            } else if !self.accept(';') {
                for statement in self.statement()? {
                    found.push((line, statement));
                }
            }
        }
    }

    fn statement(&mut self) -> Read<Vec<Statement>> {
        if self.accept('@') {
            let inverted = self.accept('!');
            let guard = Some((self.word()?, inverted));
            return Ok(vec![self.instruction(guard)?]);
        }
        let start = self.at;
        let word = self.word()?;
        if self.accept(':') {
            return Ok(vec![Statement::Label(word)]);
        }
        match word.as_str() {
            ".reg" => self.registers(),
            ".local" | ".shared" | ".param" | ".global" | ".const" => {
                let space = Space::named(&word[1..]).unwrap_or(Space::Local);
                Ok(self.variables(space, false)?.into_iter().map(Statement::Variable).collect())
            }
            ".pragma" => {
                self.next()?;
                self.expect(';')?;
                Ok(vec![])
            }
            ".loc" | ".file" => {
                self.skip_line();
                Ok(vec![])
            }
            _ => {
                self.at = start;
                Ok(vec![self.instruction(None)?])
            }
        }
    }

    fn registers(&mut self) -> Read<Vec<Statement>> {
        let word = self.word()?;
        let Some(class) = word.strip_prefix('.').and_then(Type::named) else {
            return problem(self.line(), format!("{word} is no type of registers"));
        };
        let mut found = vec![];
        loop {
            let name = self.word()?;
            let count = if self.accept('<') {
                let count = self.integer()?;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            found.push(Statement::Registers { class, name, count });
            if !self.accept(',') {
                self.expect(';')?;
                return Ok(found);
            }
        }
    }

    fn instruction(&mut self, guard: Option<(String, bool)>) -> Read<Statement> {
        let words = self.word()?.split('.').map(String::from).collect();
        let mut operands = vec![];
        while !self.accept(';') {
            operands.push(self.operand()?);
            if !self.accept(',') {
                self.expect(';')?;
                break;
            }
        }
        Ok(Statement::Instruction(Instruction { guard, words, operands }))
    }

    fn list(&mut self, end: char) -> Read<Vec<Operand>> {
        let mut found = vec![];
        while !self.accept(end) {
            found.push(self.operand()?);
            self.accept(',');
        }
        Ok(found)
    }

    fn operand(&mut self) -> Read<Operand> {
        if self.accept('{') {
            return Ok(Operand::Vector(self.list('}')?));
        }
        if self.accept('(') {
            return Ok(Operand::Group(self.list(')')?));
        }
        if self.accept('!') {
            return Ok(Operand::Not(Box::new(self.operand()?)));
        }
        if self.accept('[') {
            let base = self.operand()?;
            let offset = if self.accept('+') {
                self.integer()? as i64
            } else if self.accept('-') {
                (self.integer()? as i64).wrapping_neg()
            } else {
                0
            };
            self.expect(']')?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        let first = match self.next()? {
            Token::Word(word) => Operand::Name(word),
            Token::Integer(value) => Operand::Integer(value),
            Token::Single(bits) => Operand::Single(bits),
            Token::Double(bits) => Operand::Double(bits),
            Token::Mark('-') => Operand::Integer(self.integer()?.wrapping_neg()),
            other => return problem(self.line(), format!("{other:?} is no operand")),
        };
        if self.accept('|') {
            return Ok(Operand::Pair(Box::new(first), Box::new(self.operand()?)));
        }
        Ok(first)
    }
}
