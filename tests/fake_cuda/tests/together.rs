//! What threads of a block do together: barriers, votes, shuffles, atomic operations, and telling
//! other blocks; and what goes wrong with them.

mod programs;

use cudarc::driver::result;
use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use programs::Parameter::{At, Word};
use programs::*;

const NONE: [&str; 0] = [];

/// A kernel `k(in, out, n)`: `%r0` is the thread, `%r1` the block, `%r2` the parameter, `%rd2` the
/// address of the thread's word of `in` and `%rd3` of `out`, over all blocks.
fn kernel(body: &str) -> Module {
    Module::new(&format!(
        ".version 6.0\n.target sm_70\n.address_size 64\n.shared .align 4 .b8 tile[512];
        .global .align 4 .u32 ticket;
        .visible .entry k(.param .u64 pin, .param .u64 pout, .param .u32 pn) {{
        .reg .b32 %r<20>; .reg .b64 %rd<10>; .reg .pred %p<6>;
        mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u32 %r2, [pn];
        mov.u32 %r3, %ntid.x; mad.lo.s32 %r4, %r1, %r3, %r0; mul.wide.u32 %rd1, %r4, 4;
        ld.param.u64 %rd2, [pin]; add.s64 %rd2, %rd2, %rd1;
        ld.param.u64 %rd3, [pout]; add.s64 %rd3, %rd3, %rd1;
        mul.lo.s32 %r5, %r0, 4;
        {body}
        }}"
    ))
}

/// Runs a kernel over words; returns what it wrote, or the code it failed with.
fn run(
    control: &Control,
    module: &Module,
    shape: (u32, u32),
    input: &[u32],
    parameter: u32,
) -> Result<Vec<u32>, u32> {
    let count = (shape.0 * shape.1) as usize;
    let (x, y) = (allocate(4 * count), allocate(4 * count));
    let mut words = input.to_vec();
    words.resize(count, 0);
    upload(x, &words, DEFAULT_STREAM).unwrap();
    fill(y, 0, 4 * count, DEFAULT_STREAM).unwrap();
    let parameters = [At(x), At(y), Word(parameter)];
    let got = launch(module.function("k"), shape, DEFAULT_STREAM, &parameters)
        .and_then(|()| download::<u32>(y, count, DEFAULT_STREAM))
        .map_err(|error| error.0 as u32);
    control.mend();
    result::ctx::synchronize().unwrap();
    free(x).unwrap();
    free(y).unwrap();
    got
}

fn start() -> Option<Control> {
    let control = under_driver(&[("FAKE_CUDA_QUIET", "1")])?;
    device(0);
    control.limit_branches(5_000_000);
    Some(control)
}

fn words(count: u32) -> Vec<u32> {
    (0..count).map(|i| i.wrapping_mul(2_654_435_761) >> 5).collect()
}

#[test]
fn barriers_that_not_all_reach() {
    let Some(control) = start() else { return };
    let apart = kernel(
        "setp.lt.u32 %p0, %r0, 16; @%p0 bra $A; bar.sync 0; bra $B;
        $A: bar.sync 0; $B: st.global.u32 [%rd3], %r0; ret;",
    );
    let ended =
        kernel("setp.ge.u32 %p0, %r0, %r2; @%p0 ret; bar.sync 0; st.global.u32 [%rd3], %r0; ret;");
    let named = kernel("setp.ge.u32 %p0, %r0, %r2; @%p0 ret; bar.sync 1, 64; ret;");
    for seed in 0..20 {
        control.seed(seed);
        let got = run(&control, &apart, (1, 64), &[], 0).unwrap();
        assert_eq!(got, (0..64).collect::<Vec<_>>());
        let reports = control.take_reports();
        assert!(reports.len() == 1 && reports[0].starts_with("barrier"), "{reports:?}");
        assert!(reports[0].contains("at another barrier"), "{reports:?}");

        run(&control, &ended, (1, 64), &[], 64).unwrap();
        assert_eq!(control.take_reports(), NONE);
        run(&control, &ended, (1, 64), &[], 40).unwrap();
        assert!(control.take_reports()[0].contains("ended before this barrier"));

        run(&control, &named, (1, 96), &[], 64).unwrap();
        assert_eq!(control.take_reports(), NONE);
        assert_eq!(run(&control, &named, (1, 96), &[], 63), Err(702));
        assert!(control.take_reports()[0].contains("do not arrive"));
    }
}

#[test]
fn a_missing_barrier_between_threads_is_a_race() {
    let Some(control) = start() else { return };
    let body = |barrier: &str| {
        format!(
            "mov.u32 %r6, tile; add.s32 %r7, %r6, %r5; cvt.u64.u32 %rd4, %r7;
            st.shared.u32 [%rd4], %r0; {barrier}
            xor.b32 %r8, %r5, 4; add.s32 %r8, %r8, %r6; cvt.u64.u32 %rd5, %r8;
            ld.shared.u32 %r9, [%rd5]; st.global.u32 [%rd3], %r9; ret;"
        )
    };
    let expected: Vec<u32> = (0..64).map(|t| t ^ 1).collect();
    for (barrier, right) in [("bar.sync 0;", true), ("bar.warp.sync -1;", true), ("", false)] {
        let module = kernel(&body(barrier));
        for seed in 0..50 {
            control.seed(seed);
            let got = run(&control, &module, (1, 64), &[], 0);
            let reports = control.take_reports();
            if right {
                assert_eq!(got.as_ref(), Ok(&expected));
                assert_eq!(reports, NONE);
            } else {
                assert!(reports.iter().any(|report| report.starts_with("race in shared")));
            }
        }
    }
    // A barrier of a warp does not order other warps.
    let module = kernel(
        &body("bar.warp.sync -1;").replace("xor.b32 %r8, %r5, 4;", "xor.b32 %r8, %r5, 128;"),
    );
    run(&control, &module, (1, 64), &[], 0).unwrap();
    assert!(control.take_reports().iter().any(|report| report.starts_with("race in shared")));
}

#[test]
fn shuffles_take_the_right_lane() {
    let Some(control) = start() else { return };
    for mode in ["up", "down", "bfly", "idx"] {
        for (lane, segments) in
            [(1, 31), (5, 31), (16, 31), (3, 0), (2, 0x1807), (7, 0x1c03), (31, 31), (40, 31)]
        {
            let clamp = segments & 31;
            let module = kernel(&format!(
                "ld.global.u32 %r6, [%rd2]; shfl.sync.{mode}.b32 %r7|%p1, %r6, {lane}, {segments}, -1;
                selp.u32 %r8, 1, 0, %p1; shl.b32 %r9, %r7, 1; or.b32 %r9, %r9, %r8;
                st.global.u32 [%rd3], %r9; ret;"
            ));
            let input: Vec<u32> = words(64).iter().map(|word| word & 0xffff).collect();
            let got = run(&control, &module, (1, 64), &input, 0).unwrap();
            for thread in 0..64u32 {
                let (here, mask) = (thread % 32, segments >> 8 & 31);
                let b = lane & 31;
                let most = (here & mask) | (clamp & !mask);
                let (from, valid) = match mode {
                    "up" => (here as i32 - b as i32, here as i32 - b as i32 >= most as i32),
                    "down" => ((here + b) as i32, here + b <= most),
                    "bfly" => ((here ^ b) as i32, here ^ b <= most),
                    _ => {
                        let from = (here & mask) | (b & !mask);
                        (from as i32, from <= most)
                    }
                };
                let from = if valid { from as u32 } else { here };
                let value = input[(thread / 32 * 32 + from) as usize];
                assert_eq!(
                    got[thread as usize],
                    value << 1 | u32::from(valid),
                    "{mode} {lane} {segments}"
                );
            }
        }
    }
    assert_eq!(control.take_reports(), NONE);
    // A lane that is named and has ended.
    let module = kernel(
        "setp.eq.u32 %p0, %r0, 5; @%p0 ret; ld.global.u32 %r6, [%rd2];
        shfl.sync.down.b32 %r7, %r6, 1, 31, -1; st.global.u32 [%rd3], %r7; ret;",
    );
    assert_eq!(run(&control, &module, (1, 32), &[], 0), Err(702));
    assert!(control.take_reports()[0].starts_with("barrier"));
}

#[test]
fn votes_count_the_right_threads() {
    let Some(control) = start() else { return };
    let module = kernel(
        "ld.global.u32 %r6, [%rd2]; setp.gt.u32 %p1, %r6, %r2;
        vote.sync.ballot.b32 %r7, %p1, -1; vote.sync.any.pred %p2, %p1, -1;
        vote.sync.all.pred %p3, %p1, -1; activemask.b32 %r8;
        bar.red.popc.u32 %r9, 0, %p1; bar.red.or.pred %p4, 0, %p1;
        selp.u32 %r10, 64, 0, %p2; selp.u32 %r11, 128, 0, %p3; selp.u32 %r12, 256, 0, %p4;
        popc.b32 %r13, %r7; add.s32 %r13, %r13, %r10; add.s32 %r13, %r13, %r11; add.s32 %r13, %r13, %r12;
        popc.b32 %r8, %r8; shl.b32 %r8, %r8, 10; add.s32 %r13, %r13, %r8;
        shl.b32 %r9, %r9, 16; add.s32 %r13, %r13, %r9; st.global.u32 [%rd3], %r13; ret;",
    );
    let input = words(96);
    let limits = [0, input[3], input[40], u32::MAX];
    for limit in limits {
        let got = run(&control, &module, (1, 96), &input, limit).unwrap();
        let above = |range: std::ops::Range<usize>| {
            input[range].iter().filter(|x| **x > limit).count() as u32
        };
        for (thread, got) in got.iter().enumerate() {
            let warp = thread / 32 * 32;
            let votes = above(warp..warp + 32);
            let flags = u32::from(votes > 0) * 64 + u32::from(votes == 32) * 128;
            let all = above(0..96);
            let expected = votes + flags + u32::from(all > 0) * 256 + (32 << 10) + (all << 16);
            assert_eq!(*got, expected, "{thread}");
        }
    }
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn atomic_operations_lose_nothing() {
    let Some(control) = start() else { return };
    // Each thread takes a ticket, and one of three kinds of sums is kept in shared memory.
    for (name, class, expected) in [
        ("add", "u32", (0..64u32).sum::<u32>()),
        ("max", "u32", 63),
        ("or", "b32", 63),
        ("xor", "b32", (0..64u32).fold(0, |all, t| all ^ t)),
    ] {
        let module = kernel(&format!(
            "mov.u32 %r6, tile; cvt.u64.u32 %rd4, %r6; setp.ne.u32 %p0, %r0, 0; @%p0 bra $W;
            st.shared.u32 [%rd4], 0; $W: bar.sync 0;
            atom.shared.{name}.{class} %r7, [%rd4], %r0; bar.sync 0;
            ld.shared.u32 %r8, [%rd4]; st.global.u32 [%rd3], %r8; ret;"
        ));
        for seed in 0..10 {
            control.seed(seed);
            let got = run(&control, &module, (1, 64), &[], 0).unwrap();
            assert_eq!(got, vec![expected; 64], "{name}");
        }
    }
    // A lock: threads wait for each other.
    let module = kernel(
        "mov.u64 %rd6, ticket; setp.eq.u32 %p5, %r0, 999;
        $L: atom.global.cas.b32 %r6, [%rd6], 0, 1; setp.ne.u32 %p0, %r6, 0; @%p0 bra $L;
        membar.gl; ld.param.u64 %rd7, [pout]; ld.volatile.global.u32 %r7, [%rd7]; add.s32 %r7, %r7, 1;
        st.volatile.global.u32 [%rd7], %r7; membar.gl; atom.global.exch.b32 %r6, [%rd6], 0; ret;",
    );
    let got = run(&control, &module, (2, 32), &[], 0).unwrap();
    assert_eq!(got[0], 64);
    assert_eq!(control.take_reports(), NONE);
}

#[test]
fn the_last_block_reads_what_the_others_told() {
    let Some(control) = start() else { return };
    // Each block writes a word; the block with the last ticket adds them.
    let body = |fence: &str| {
        format!(
            "setp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.global.u32 %r6, [%rd2]; st.global.u32 [%rd3], %r6;
            {fence} mov.u64 %rd6, ticket; atom.global.inc.u32 %r7, [%rd6], 3;
            setp.ne.u32 %p1, %r7, 3; @%p1 ret; {fence}
            ld.param.u64 %rd7, [pout]; mov.u32 %r8, 0; mov.u32 %r9, 0;
            $S: ld.global.u32 %r10, [%rd7]; add.s32 %r9, %r9, %r10; add.s64 %rd7, %rd7, 128;
            add.s32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 4; @%p2 bra $S;
            ld.param.u64 %rd7, [pout]; st.global.u32 [%rd7+4], %r9; ret;"
        )
    };
    let input = words(128);
    let sum = (0..4).fold(0u32, |all, block| all.wrapping_add(input[block * 32]));
    let (right, wrong) = (kernel(&body("membar.gl;")), kernel(&body("")));
    for seed in 0..50 {
        control.seed(seed);
        assert_eq!(run(&control, &right, (4, 32), &input, 0).unwrap()[1], sum);
        assert_eq!(control.take_reports(), NONE);
        run(&control, &wrong, (4, 32), &input, 0).unwrap();
        assert!(control.take_reports()[0].starts_with("race in a launch"));
    }
}

#[test]
fn endless_and_lost_kernels_end() {
    let Some(control) = start() else { return };
    let endless = kernel("$L: add.s32 %r6, %r6, 1; bra $L;");
    assert_eq!(run(&control, &endless, (1, 1), &[], 0), Err(702));
    assert!(control.take_reports()[0].contains("too many instructions"));
    let trap = kernel("trap;");
    assert_eq!(run(&control, &trap, (1, 1), &[], 0), Err(719));
    let local = kernel(
        ".local .align 4 .b8 room[16]; mov.u64 %rd4, room; cvta.local.u64 %rd4, %rd4;
        mul.wide.u32 %rd5, %r2, 4; add.s64 %rd4, %rd4, %rd5; st.u32 [%rd4], 7; ld.u32 %r6, [%rd4];
        st.global.u32 [%rd3], %r6; ret;",
    );
    assert_eq!(run(&control, &local, (1, 2), &[], 3).unwrap(), [7, 7]);
    assert_eq!(run(&control, &local, (1, 2), &[], 4), Err(700));
    let unwritten = kernel(
        "mov.u32 %r6, tile; cvt.u64.u32 %rd4, %r6; ld.shared.u32 %r7, [%rd4]; st.global.u32 [%rd3], %r7; ret;",
    );
    control.take_reports();
    run(&control, &unwritten, (1, 1), &[], 0).unwrap();
    assert!(control.take_reports()[0].starts_with("uninitialised"));
}
