/* The floating-point mode of a thread: how numbers are rounded, what becomes of denormal numbers, and which results raise a
 * signal. A program and its test may look at it, and set it. */
#ifndef UMBO_TESTS_FLOATING_POINT_H
#define UMBO_TESTS_FLOATING_POINT_H

#include "check.h"

struct mode {
    const char *name;
    unsigned long control;
};

#if defined(__x86_64__)
#include <xmmintrin.h>

/* The other bits are flags of past exceptions. */
#define MODE_CONTROL 0xffc0ul
#define MODE_DEFAULT 0x1f80ul

static const struct mode unusual_modes[] = {
    {"denormal numbers are zero", MODE_DEFAULT | 0x8040},
    {"rounding up", MODE_DEFAULT | 0x4000},
    {"rounding down", MODE_DEFAULT | 0x2000},
    {"rounding to zero", MODE_DEFAULT | 0x6000},
    {"invalid, infinite and too large results trap", MODE_DEFAULT & ~0x0680ul},
    {"all of it at once", (MODE_DEFAULT | 0xe040) & ~0x0680ul},
};

static CHECK_MAYBE_UNUSED unsigned long mode_of_thread(void) { return _mm_getcsr() & MODE_CONTROL; }

static CHECK_MAYBE_UNUSED void set_mode(unsigned long control) { _mm_setcsr((unsigned)control); }

#elif defined(__aarch64__)

#define MODE_DEFAULT 0ul

/* Traps are an option of the processor. */
static const struct mode unusual_modes[] = {
    {"denormal numbers are zero", 1ul << 24},
    {"rounding up", 1ul << 22},
    {"rounding down", 2ul << 22},
    {"rounding to zero", 3ul << 22},
    {"all of it at once", 1ul << 24 | 3ul << 22},
};

static CHECK_MAYBE_UNUSED unsigned long mode_of_thread(void) {
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

static CHECK_MAYBE_UNUSED void set_mode(unsigned long control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }

#else

#define MODE_DEFAULT 0ul

static const struct mode unusual_modes[] = {{"none that is known", 0}};

static CHECK_MAYBE_UNUSED unsigned long mode_of_thread(void) { return MODE_DEFAULT; }

static CHECK_MAYBE_UNUSED void set_mode(unsigned long control) { (void)control; }

#endif

/* Sets a mode, and returns what has become of it: valgrind knows rounding alone. */
static CHECK_MAYBE_UNUSED unsigned long try_mode(unsigned long control) {
    set_mode(control);
    return mode_of_thread();
}

#endif
