use std::path::Path;
use std::process::Command;

use umbo_core::kernels::cuda::PTX;

/// Statements of the PTX, without comments.
fn statements() -> impl Iterator<Item = &'static str> {
    PTX.lines()
        .map(|line| line.split("//").next().unwrap().trim())
        .filter(|line| !line.is_empty())
}

/// The operation of a statement, without the predicate that it may have.
fn operation(statement: &str) -> &str {
    let statement = match statement.strip_prefix('@') {
        Some(rest) => rest
            .split_once(char::is_whitespace)
            .map_or("", |(_, rest)| rest)
            .trim(),
        None => statement,
    };
    statement.split([' ', '\t', ';']).next().unwrap()
}

/// What would let the arithmetic differ from the CPU's in some operation.
fn objection(operation: &str) -> Option<&'static str> {
    let parts: Vec<&str> = operation.split('.').collect();
    let is_float = parts
        .iter()
        .any(|part| ["f16", "f32", "f64", "bf16"].contains(part));
    match parts[0] {
        "fma" => Some("is fused"),
        "mad" if is_float => Some("is fused"),
        _ if parts.contains(&"ftz") => Some("flushes denormals"),
        _ if parts.contains(&"approx") || parts.contains(&"full") => Some("is an approximation"),
        _ if parts.contains(&"sat") => Some("saturates"),
        // Without a rounding the assembler may contract them.
        "add" | "sub" | "mul" | "div" | "sqrt" | "rcp" if is_float && !parts.contains(&"rn") => {
            Some("has no rounding")
        }
        "min" | "max" if is_float => Some("treats NaN in its own way"),
        _ => None,
    }
}

#[test]
fn every_operation_is_rounded_by_itself() {
    for statement in statements() {
        let operation = operation(statement);
        if let Some(problem) = objection(operation) {
            panic!("{operation} {problem}: {statement}");
        }
    }
    assert!(statements().any(|statement| operation(statement) == "add.rn.f64"));
}

#[test]
fn what_could_differ_is_noticed() {
    let wrong = [
        "fma.f32 \t%f3, %f1, %f2, %f3;",
        "@%p1 fma.rn.f64 %fd1, %fd2, %fd3, %fd4;",
        "mad.f32 %f1, %f2, %f3, %f4;",
        "add.f32 %f1, %f2, %f3;",
        "mul.f64 %fd1, %fd2, %fd3;",
        "add.rn.ftz.f32 %f1, %f2, %f3;",
        "div.full.f32 %f1, %f2, %f3;",
        "sqrt.approx.f32 %f1, %f2;",
        "max.f32 %f1, %f2, %f3;",
    ];
    for statement in wrong {
        assert!(objection(operation(statement)).is_some(), "{statement}");
    }
    for statement in [
        "mad.lo.s32 %r1, %r2, %r3, %r4;",
        "add.rn.f32 %f1, %f2, %f3;",
        "ret;",
    ] {
        assert!(objection(operation(statement)).is_none(), "{statement}");
    }
}

/// Loads and stores that the compiler does not know to be of the card's memory are slower, and hide
/// from the driver what a kernel can reach.
#[test]
fn no_access_is_generic() {
    for statement in statements() {
        let parts: Vec<&str> = operation(statement).split('.').collect();
        if ["ld", "st", "atom", "red"].contains(&parts[0]) {
            let known = ["global", "shared", "param"]
                .iter()
                .any(|space| parts.contains(space));
            assert!(known, "{statement}");
        }
    }
}

/// Runs where clang 19 is.
#[test]
fn the_committed_ptx_is_what_the_source_gives() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fresh.ptx");
    let status = Command::new(root.join("scripts/build_ptx.sh"))
        .arg(&fresh)
        .status()
        .unwrap();
    if status.code() == Some(77) {
        return crate::skip("cuda.ptx", "no clang-19 to make the PTX with");
    }
    assert!(status.success(), "the kernels do not compile");
    let fresh = std::fs::read_to_string(fresh).unwrap();
    assert!(
        fresh == *PTX,
        "crates/umbo-kernels/src/cuda/umbo.ptx.lzma is not what scripts/build_ptx.sh makes"
    );
}
