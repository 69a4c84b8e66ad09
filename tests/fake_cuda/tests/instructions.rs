//! Each instruction, executed from PTX, beside Rust's arithmetic on values that are hard: ends of
//! ranges, both zeros, denormals, infinities, what is no number.

mod programs;

use std::fmt::Write;

use fake_cuda::harness::under_driver;
use programs::Parameter::{At, Word};
use programs::*;

type Reference = Box<dyn Fn(u64, u64, u64) -> u64>;

/// An instruction, the types of its operands and of its result, and what it must give.
struct Case {
    text: String,
    from: Vec<&'static str>,
    to: &'static str,
    expected: Reference,
}

fn case(
    text: &str,
    from: &[&'static str],
    to: &'static str,
    expected: impl Fn(u64, u64, u64) -> u64 + 'static,
) -> Case {
    Case { text: text.into(), from: from.to_vec(), to, expected: Box::new(expected) }
}

fn bits(class: &str) -> u32 {
    match class {
        "pred" => 1,
        _ => class[1..].parse().expect("a type ends with its width"),
    }
}

/// The register class that holds values of a type.
fn register(class: &str) -> String {
    match class {
        "u8" | "s8" | "b8" => ".b16".into(),
        "f16" => ".b16".into(),
        _ => format!(".{class}"),
    }
}

fn single(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

fn s(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

fn d(value: u64) -> f64 {
    f64::from_bits(value)
}

macro_rules! integer_cases {
    ($cases:ident, $($signed:ident $unsigned:ident $wide:ident $wide_unsigned:ident;)*) => {$(
        for is_signed in [true, false] {
            let class: &'static str = if is_signed {
                concat!("s", stringify!($unsigned), "")
            } else {
                stringify!($unsigned)
            };
            // `su32` is what `concat!` makes of the unsigned name.
            let class: &'static str = match class {
                "su16" => "s16",
                "su32" => "s32",
                "su64" => "s64",
                other => other,
            };
            let plain: &'static str = match bits(class) { 16 => "b16", 32 => "b32", _ => "b64" };
            let two = [class; 2];
            let mut add = |name: &str, expected: fn($signed, $signed) -> $signed, unsigned: fn($unsigned, $unsigned) -> $unsigned| {
                $cases.push(case(&format!("{name}.{class}"), &two, class, move |a, b, _| {
                    if is_signed { expected(a as $signed, b as $signed) as $unsigned as u64 } else { unsigned(a as $unsigned, b as $unsigned) as u64 }
                }));
            };
            add("add", |a, b| a.wrapping_add(b), |a, b| a.wrapping_add(b));
            add("sub", |a, b| a.wrapping_sub(b), |a, b| a.wrapping_sub(b));
            add("mul.lo", |a, b| a.wrapping_mul(b), |a, b| a.wrapping_mul(b));
            add("mul.hi", |a, b| ((a as i128 * b as i128) >> $signed::BITS) as $signed, |a, b| ((a as u128 * b as u128) >> $signed::BITS) as $unsigned);
            add("div", |a, b| if b == 0 { -1 } else { a.wrapping_div(b) }, |a, b| a.checked_div(b).unwrap_or($unsigned::MAX));
            add("rem", |a, b| if b == 0 { a } else { a.wrapping_rem(b) }, |a, b| a.checked_rem(b).unwrap_or(a));
            add("min", |a, b| a.min(b), |a, b| a.min(b));
            add("max", |a, b| a.max(b), |a, b| a.max(b));
            $cases.push(case(&format!("mad.lo.{class}"), &[class; 3], class, |a, b, c| {
                (a as $unsigned).wrapping_mul(b as $unsigned).wrapping_add(c as $unsigned) as u64
            }));
            $cases.push(case(&format!("shr.{class}"), &[class, "u32"], class, move |a, n, _| {
                let n = (n as u32).min(127);
                let value = if is_signed { (a as $signed as i128) >> n } else { ((a as $unsigned as u128) >> n) as i128 };
                value as $unsigned as u64
            }));
            for (name, expected) in [
                ("eq", (|o| o == std::cmp::Ordering::Equal) as fn(std::cmp::Ordering) -> bool),
                ("ne", |o| o != std::cmp::Ordering::Equal),
                ("lt", |o| o == std::cmp::Ordering::Less),
                ("le", |o| o != std::cmp::Ordering::Greater),
                ("gt", |o| o == std::cmp::Ordering::Greater),
                ("ge", |o| o != std::cmp::Ordering::Less),
            ] {
                $cases.push(case(&format!("setp.{name}.{class}"), &two, "pred", move |a, b, _| {
                    let order = if is_signed { (a as $signed).cmp(&(b as $signed)) } else { (a as $unsigned).cmp(&(b as $unsigned)) };
                    expected(order).into()
                }));
            }
            if is_signed {
                $cases.push(case(&format!("neg.{class}"), &[class], class, |a, _, _| (a as $signed).wrapping_neg() as $unsigned as u64));
                $cases.push(case(&format!("abs.{class}"), &[class], class, |a, _, _| (a as $signed).unsigned_abs() as u64));
                $cases.push(case(&format!("not.{plain}"), &[plain], plain, |a, _, _| !(a as $unsigned) as u64));
                $cases.push(case(&format!("and.{plain}"), &[plain; 2], plain, |a, b, _| a & b));
                $cases.push(case(&format!("or.{plain}"), &[plain; 2], plain, |a, b, _| a | b));
                $cases.push(case(&format!("xor.{plain}"), &[plain; 2], plain, |a, b, _| a ^ b));
                $cases.push(case(&format!("shl.{plain}"), &[plain, "u32"], plain, |a, n, _| {
                    (a as u128).checked_shl(n as u32).unwrap_or(0) as $unsigned as u64
                }));
                $cases.push(case(&format!("selp.{plain}"), &[plain, plain, "u32"], plain, |a, b, c| if c & 1 != 0 { a } else { b }));
            }
            if bits(class) < 64 {
                let wide: &'static str = match (bits(class), is_signed) { (16, true) => "s32", (16, false) => "u32", (_, true) => "s64", _ => "u64" };
                $cases.push(case(&format!("mul.wide.{class}"), &two, wide, move |a, b, _| {
                    if is_signed { (a as $signed as $wide).wrapping_mul(b as $signed as $wide) as $wide_unsigned as u64 }
                    else { (a as $unsigned as $wide_unsigned).wrapping_mul(b as $unsigned as $wide_unsigned) as u64 }
                }));
                $cases.push(case(&format!("mad.wide.{class}"), &[class, class, wide], wide, move |a, b, c| {
                    let product = if is_signed { (a as $signed as $wide).wrapping_mul(b as $signed as $wide) as $wide_unsigned }
                    else { (a as $unsigned as $wide_unsigned).wrapping_mul(b as $unsigned as $wide_unsigned) };
                    product.wrapping_add(c as $wide_unsigned) as u64
                }));
            }
        }
    )*};
}

/// What `min` and `max` of floating-point numbers give, by the order of their bits.
fn extreme(a: u64, b: u64, width: u32, smaller: bool) -> u64 {
    let is_nan = |x: u64| if width == 32 { s(x).is_nan() } else { d(x).is_nan() };
    // In this order -0 comes before +0.
    let key = |x: u64| {
        let x = if width == 32 { (x as u32 as i32) as i64 } else { x as i64 };
        if x < 0 { i64::MIN.wrapping_sub(x) - 1 } else { x }
    };
    match (is_nan(a), is_nan(b)) {
        (true, true) => 0x7fff_ffff,
        (true, false) => b,
        (false, true) => a,
        _ if (key(a) < key(b)) == smaller => a,
        _ => b,
    }
}

fn float_cases(cases: &mut Vec<Case>) {
    type Two = (&'static str, fn(f32, f32) -> f32, fn(f64, f64) -> f64);
    let two: [Two; 4] = [
        ("add.rn", |a, b| a + b, |a, b| a + b),
        ("sub.rn", |a, b| a - b, |a, b| a - b),
        ("mul.rn", |a, b| a * b, |a, b| a * b),
        ("div.rn", |a, b| a / b, |a, b| a / b),
    ];
    for (name, f, g) in two {
        cases.push(case(&format!("{name}.f32"), &["f32"; 2], "f32", move |a, b, _| {
            single(f(s(a), s(b)))
        }));
        cases.push(case(&format!("{name}.f64"), &["f64"; 2], "f64", move |a, b, _| {
            g(d(a), d(b)).to_bits()
        }));
    }
    type One = (&'static str, fn(f32) -> f32, fn(f64) -> f64);
    let one: [One; 2] = [("sqrt.rn", f32::sqrt, f64::sqrt), ("rcp.rn", |a| 1.0 / a, |a| 1.0 / a)];
    for (name, f, g) in one {
        cases.push(case(&format!("{name}.f32"), &["f32"], "f32", move |a, _, _| single(f(s(a)))));
        cases.push(case(&format!("{name}.f64"), &["f64"], "f64", move |a, _, _| g(d(a)).to_bits()));
    }
    cases.push(case("fma.rn.f32", &["f32"; 3], "f32", |a, b, c| single(s(a).mul_add(s(b), s(c)))));
    cases
        .push(case("fma.rn.f64", &["f64"; 3], "f64", |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()));
    cases.push(case("neg.f32", &["f32"], "f32", |a, _, _| a ^ 0x8000_0000));
    cases.push(case("neg.f64", &["f64"], "f64", |a, _, _| a ^ (1 << 63)));
    cases.push(case("abs.f32", &["f32"], "f32", |a, _, _| a & 0x7fff_ffff));
    cases.push(case("abs.f64", &["f64"], "f64", |a, _, _| a & !(1 << 63)));
    cases.push(case("copysign.f32", &["f32"; 2], "f32", |a, b, _| {
        s(b).copysign(s(a)).to_bits().into()
    }));
    for (name, smaller) in [("min", true), ("max", false)] {
        cases.push(case(&format!("{name}.f32"), &["f32"; 2], "f32", move |a, b, _| {
            extreme(a, b, 32, smaller)
        }));
        cases.push(case(&format!("{name}.f64"), &["f64"; 2], "f64", move |a, b, _| {
            extreme(a, b, 64, smaller)
        }));
    }
    use std::cmp::Ordering::{self, *};
    type Holds = (&'static str, fn(Option<Ordering>) -> bool);
    let holds: [Holds; 14] = [
        ("eq", |o| o == Some(Equal)),
        ("ne", |o| matches!(o, Some(Less | Greater))),
        ("lt", |o| o == Some(Less)),
        ("le", |o| matches!(o, Some(Less | Equal))),
        ("gt", |o| o == Some(Greater)),
        ("ge", |o| matches!(o, Some(Greater | Equal))),
        ("equ", |o| matches!(o, None | Some(Equal))),
        ("neu", |o| o != Some(Equal)),
        ("ltu", |o| matches!(o, None | Some(Less))),
        ("leu", |o| o != Some(Greater)),
        ("gtu", |o| matches!(o, None | Some(Greater))),
        ("geu", |o| o != Some(Less)),
        ("num", |o| o.is_some()),
        ("nan", |o| o.is_none()),
    ];
    for (name, holds) in holds {
        cases.push(case(&format!("setp.{name}.f32"), &["f32"; 2], "pred", move |a, b, _| {
            holds(s(a).partial_cmp(&s(b))).into()
        }));
        cases.push(case(&format!("setp.{name}.f64"), &["f64"; 2], "pred", move |a, b, _| {
            holds(d(a).partial_cmp(&d(b))).into()
        }));
    }
}

/// A half from its definition.
fn half(bits: u64) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15 & 1, bits >> 10 & 31, (bits & 1023) as f64);
    let magnitude = match exponent {
        31 if fraction != 0.0 => f64::NAN,
        31 => f64::INFINITY,
        0 => fraction * 2f64.powi(-24),
        _ => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

fn nearest_half(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let value = value.abs();
    // 65520 is half-way to what would come after the greatest.
    if value >= 65520.0 {
        return sign | 0x7c00;
    }
    let (mut below, mut above) = (0, 0x7c00);
    while above - below > 1 {
        let middle = (below + above) / 2;
        if half(middle) <= value { below = middle } else { above = middle }
    }
    let (low, high) = (half(below), if below == 0x7bff { 65536.0 } else { half(below + 1) });
    let up = match (value - low).partial_cmp(&(high - value)) {
        Some(std::cmp::Ordering::Greater) => 1,
        Some(std::cmp::Ordering::Equal) => below & 1,
        _ => 0,
    };
    sign | (below + up)
}

fn conversion_cases(cases: &mut Vec<Case>) {
    cases.push(case("cvt.rn.f32.f64", &["f64"], "f32", |a, _, _| single(d(a) as f32)));
    cases.push(case("cvt.f64.f32", &["f32"], "f64", |a, _, _| f64::from(s(a)).to_bits()));
    // Between the value and the other side of what the nearest one gives.
    cases.push(case("cvt.rz.f32.f64", &["f64"], "f32", |a, _, _| {
        let (value, near) = (d(a), d(a) as f32);
        single(if f64::from(near).abs() > value.abs() {
            f32::from_bits(near.to_bits() - 1)
        } else {
            near
        })
    }));
    cases.push(case("cvt.f32.f16", &["f16"], "f32", |a, _, _| single(half(a & 0xffff) as f32)));
    cases.push(case("cvt.rn.f16.f32", &["f32"], "f16", |a, _, _| nearest_half(s(a).into())));
    cases.push(case("cvt.rn.f16.f64", &["f64"], "f16", |a, _, _| nearest_half(d(a))));
    let integers = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"];
    let value = |a: u64, class: &str| -> i128 {
        let width = bits(class);
        let low = a as i128 & ((1 << width) - 1);
        if class.starts_with('s') && low >> (width - 1) & 1 == 1 { low - (1 << width) } else { low }
    };
    for from in integers {
        for to in integers {
            if from != to {
                cases.push(case(&format!("cvt.{to}.{from}"), &[from], to, move |a, _, _| {
                    (value(a, from) & ((1 << bits(to)) - 1)) as u64
                }));
            }
        }
        cases.push(case(&format!("cvt.rn.f32.{from}"), &[from], "f32", move |a, _, _| {
            single(value(a, from) as f32)
        }));
        cases.push(case(&format!("cvt.rn.f64.{from}"), &[from], "f64", move |a, _, _| {
            (value(a, from) as f64).to_bits()
        }));
    }
    type Round = (&'static str, fn(f64) -> f64);
    let rounds: [Round; 4] = [
        ("rni", f64::round_ties_even),
        ("rzi", f64::trunc),
        ("rmi", f64::floor),
        ("rpi", f64::ceil),
    ];
    for (name, round) in rounds {
        cases.push(case(&format!("cvt.{name}.f32.f32"), &["f32"], "f32", move |a, _, _| {
            single(round(s(a).into()) as f32)
        }));
        cases.push(case(&format!("cvt.{name}.f64.f64"), &["f64"], "f64", move |a, _, _| {
            round(d(a)).to_bits()
        }));
        for to in integers {
            for from in ["f32", "f64"] {
                cases.push(case(
                    &format!("cvt.{name}.{to}.{from}"),
                    &[from],
                    to,
                    move |a, _, _| {
                        let value = if from == "f32" { f64::from(s(a)) } else { d(a) };
                        let width = bits(to);
                        if value.is_nan() {
                            return if from == "f64" || width == 64 { 1 << (width - 1) } else { 0 };
                        }
                        let (low, high) = if to.starts_with('s') {
                            (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1)
                        } else {
                            (0, (1i128 << width) - 1)
                        };
                        ((round(value) as i128).clamp(low, high) & ((1 << width) - 1)) as u64
                    },
                ));
            }
        }
    }
}

fn bit_cases(cases: &mut Vec<Case>) {
    cases.push(case("popc.b32", &["b32"], "u32", |a, _, _| (a as u32).count_ones().into()));
    cases.push(case("popc.b64", &["b64"], "u32", |a, _, _| a.count_ones().into()));
    cases.push(case("clz.b32", &["b32"], "u32", |a, _, _| (a as u32).leading_zeros().into()));
    cases.push(case("clz.b64", &["b64"], "u32", |a, _, _| a.leading_zeros().into()));
    cases.push(case("brev.b32", &["b32"], "b32", |a, _, _| (a as u32).reverse_bits().into()));
    cases.push(case("brev.b64", &["b64"], "b64", |a, _, _| a.reverse_bits()));
    cases.push(case("bfe.u32", &["u32"; 3], "u32", |a, at, n| {
        let (at, n) = (at & 255, n & 255);
        (a as u32 as u128 >> at.min(100) & ((1u128 << n.min(100)) - 1)) as u32 as u64
    }));
    cases.push(case("bfe.s32", &["s32", "u32", "u32"], "s32", |a, at, n| {
        let (at, n) = (at & 255, n & 255);
        if n == 0 {
            return 0;
        }
        // A field that begins beyond the value is made of its sign.
        let shifted = (a as i32 as i128) >> at.min(100);
        let n = n.min(32) as u32;
        let field = ((shifted << (128 - n)) >> (128 - n)) as i32;
        field as u32 as u64
    }));
    cases.push(case("prmt.b32", &["b32"; 3], "b32", |a, b, c| {
        let all = [(a as u32).to_le_bytes(), (b as u32).to_le_bytes()].concat();
        let byte = |at: u32| {
            let pick = c >> (4 * at) & 15;
            let byte = all[(pick & 7) as usize];
            if pick & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
        };
        u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)]).into()
    }));
    let both = |a: u64, b: u64| (b as u32 as u64) << 32 | a as u32 as u64;
    cases.push(case("shf.l.wrap.b32", &["b32", "b32", "u32"], "b32", move |a, b, n| {
        (both(a, b) << (n & 31)) >> 32
    }));
    cases.push(case("shf.r.wrap.b32", &["b32", "b32", "u32"], "b32", move |a, b, n| {
        (both(a, b) >> (n & 31)) as u32 as u64
    }));
    cases.push(case("shf.l.clamp.b32", &["b32", "b32", "u32"], "b32", move |a, b, n| {
        ((both(a, b) as u128) << (n as u32).min(32) >> 32) as u32 as u64
    }));
    cases.push(case("shf.r.clamp.b32", &["b32", "b32", "u32"], "b32", move |a, b, n| {
        (both(a, b) >> (n as u32).min(32)) as u32 as u64
    }));
}

/// Values that are hard for some type.
fn hard() -> Vec<u64> {
    let mut values: Vec<u64> = vec![0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256];
    values.extend([0x7fff, 0x8000, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]);
    values.extend([1 << 32, i64::MAX as u64, 1 << 63, u64::MAX, 0x0123_4567_89ab_cdef]);
    for value in [
        0.0f32,
        1.0,
        1.5,
        2.5,
        -0.5,
        1e-45,
        -1e-39,
        f32::MIN_POSITIVE,
        3.4e38,
        0.1,
        65504.0,
        65520.0,
        6e-8,
        f32::INFINITY,
        f32::NAN,
    ] {
        values.push(value.to_bits().into());
        values.push((-value).to_bits().into());
    }
    for value in [
        0.0f64,
        1.0,
        0.5,
        2.5,
        1e-310,
        5e-324,
        1e308,
        0.1,
        1e-46,
        3.4028235677973366e38,
        2147483647.5,
        9.3e18,
        f64::INFINITY,
        f64::NAN,
    ] {
        values.push(value.to_bits());
        values.push((-value).to_bits());
    }
    values
}

fn kernel(name: &str, case: &Case) -> String {
    let mut text = String::new();
    let to = case.to;
    let stored = if to == "pred" { "u32" } else { to };
    writeln!(text, ".visible .entry {name}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 pn)\n{{").unwrap();
    writeln!(text, ".reg .b64 %rd<8>; .reg .b32 %r<5>; .reg .pred %p<4>;").unwrap();
    writeln!(text, "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;").unwrap();
    writeln!(text, "mad.lo.s32 %r3, %r0, %r1, %r2; ld.param.u32 %r4, [pn];").unwrap();
    writeln!(text, "setp.ge.u32 %p0, %r3, %r4; @%p0 ret; mul.wide.u32 %rd0, %r3, 8;").unwrap();
    let mut operands = vec![];
    for (index, (class, place)) in case.from.iter().zip(["pa", "pb", "pc"]).enumerate() {
        let load = if *class == "f16" { "b16" } else { class };
        writeln!(text, ".reg {} %x{index};", register(class)).unwrap();
        writeln!(text, "ld.param.u64 %rd1, [{place}]; add.s64 %rd2, %rd1, %rd0; ld.global.{load} %x{index}, [%rd2];").unwrap();
        operands.push(format!("%x{index}"));
    }
    if case.text.starts_with("selp") {
        writeln!(text, "and.b32 %r0, %x2, 1; setp.ne.u32 %p2, %r0, 0;").unwrap();
        operands[2] = "%p2".into();
    }
    writeln!(text, ".reg {} %y;", register(stored)).unwrap();
    let sources = operands.join(", ");
    if to == "pred" {
        writeln!(text, "{} %p1, {sources}; selp.u32 %y, 1, 0, %p1;", case.text).unwrap();
    } else {
        writeln!(text, "{} %y, {sources};", case.text).unwrap();
    }
    let store = match stored {
        "f16" => "b16",
        other => other,
    };
    writeln!(
        text,
        "ld.param.u64 %rd1, [pd]; add.s64 %rd2, %rd1, %rd0; st.global.{store} [%rd2], %y; ret;\n}}"
    )
    .unwrap();
    text
}

#[test]
fn every_instruction_computes_what_rust_does() {
    let Some(control) = under_driver(&[]) else { return };
    device(0);
    let mut cases = vec![];
    integer_cases! { cases, i16 u16 i32 u32; i32 u32 i64 u64; i64 u64 i128 u128; }
    float_cases(&mut cases);
    conversion_cases(&mut cases);
    bit_cases(&mut cases);

    let mut text = String::from(".version 6.0\n.target sm_70\n.address_size 64\n");
    for (index, case) in cases.iter().enumerate() {
        text.push_str(&kernel(&format!("k{index}"), case));
    }
    let module = Module::new(&text);

    let hard = hard();
    // Instructions with one operand need only the first of these.
    let (mut a, mut b, mut c) = (hard.clone(), hard.clone(), hard.clone());
    let mut random = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..1000 {
        a.push(next());
        b.push(next() >> (next() % 64));
        c.push(next() >> (next() % 64));
    }
    let few = a.len();
    for (i, x) in hard.iter().enumerate() {
        for (j, y) in hard.iter().enumerate() {
            a.push(*x);
            b.push(*y);
            c.push(hard[(i * 31 + j * 17 + 5) % hard.len()]);
        }
    }
    let count = a.len();
    let memory: Vec<u64> = (0..4).map(|_| allocate(8 * count)).collect();
    for (at, values) in memory.iter().zip([&a, &b, &c]) {
        upload(*at, values, DEFAULT_STREAM).unwrap();
    }
    let mut compared = 0;
    for (index, case) in cases.iter().enumerate() {
        let count = if case.from.len() == 1 { few } else { count };
        let shape = ((count as u32).div_ceil(128), 128);
        let masks =
            [0, 1, 2].map(|at| u64::MAX >> (64 - case.from.get(at).map_or(64, |c| bits(c))));
        fill(memory[3], 0, 8 * count, DEFAULT_STREAM).unwrap();
        let parameters =
            [At(memory[0]), At(memory[1]), At(memory[2]), At(memory[3]), Word(count as u32)];
        launch(module.function(&format!("k{index}")), shape, DEFAULT_STREAM, &parameters).unwrap();
        let got: Vec<u64> = download(memory[3], count, DEFAULT_STREAM).unwrap();
        for at in 0..count {
            let (x, y, z) = (a[at] & masks[0], b[at] & masks[1], c[at] & masks[2]);
            let expected = (case.expected)(x, y, z);
            let both_nan = case.to == "f64"
                && d(got[at]).is_nan()
                && (d(expected).is_nan() || expected == 0x7fff_ffff);
            assert!(
                got[at] == expected || both_nan,
                "{} of {x:#x}, {y:#x}, {z:#x}: {:#x}, not {expected:#x}",
                case.text,
                got[at]
            );
            compared += 1;
        }
    }
    println!("instructions: {} forms, {compared} results compared", cases.len());
    clean(&memory, &[], &[]);
    assert_eq!(control.take_reports(), [] as [&str; 0]);
}
