/* Plans of few choices in which every two levels of different factors meet. */
#ifndef UMBO_TESTS_PAIRS_H
#define UMBO_TESTS_PAIRS_H

#include <stdint.h>
#include <string.h>

#include "check.h"

enum { MOST_FACTORS = 24, MOST_LEVELS = 8 };

typedef int plan[MOST_FACTORS];

/* Changes what does not go together. */
typedef void (*amend_fn)(int *levels, int64_t number);

typedef struct {
    int factors;
    const int *levels; /* how many each factor has */
    amend_fn amend;
    int64_t number; /* for `amend` */
    uint32_t state;
    char has_met[MOST_FACTORS][MOST_FACTORS][MOST_LEVELS][MOST_LEVELS];
} planner;

static CHECK_MAYBE_UNUSED int pairs_of(planner *self, const int *levels, int notes) {
    int count = 0;
    for (int a = 0; a < self->factors; ++a)
        for (int b = a + 1; b < self->factors; ++b) {
            char *const met = &self->has_met[a][b][levels[a]][levels[b]];
            count += *met == 0;
            if (notes) *met = 1;
        }
    return count;
}

/* The next plan, of some that are drawn the one with the most pairs that have not met; 0 if none has any. */
static CHECK_MAYBE_UNUSED int next_plan(planner *self, int *to) {
    int best = 0;
    if (self->state == 0) self->state = 1;
    for (int trial = 0; trial < 100; ++trial) {
        plan drawn = {0};
        for (int at = 0; at < self->factors; ++at) {
            self->state = self->state * 1664525u + 1013904223u;
            drawn[at] = (int)((self->state >> 8) % (uint32_t)self->levels[at]);
        }
        self->amend(drawn, self->number);
        const int met = pairs_of(self, drawn, 0);
        if (met > best) best = met, memcpy(to, drawn, sizeof(drawn));
    }
    return best > 0 && pairs_of(self, to, 1) > 0;
}

#endif
