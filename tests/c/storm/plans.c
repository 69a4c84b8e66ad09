/* What runs are to do, drawn from the seed. */
#include "storm.h"

struct plan *new_plan(struct thread *thread, int strategy) {
    struct plan *plan = (struct plan *)calloc(1, sizeof(*plan));
    CHECK(plan != NULL);
    plan->alive = ALIVE;
    plan->thread = thread;
    plan->strategy = strategy;
    plan->may_end = MAY(UMBO_OK);
    plan->failing_action = -1;
    plan->effect.trainer = -1;
    return plan;
}

void enter(struct plan *plan) {
    if (__atomic_load_n(&plan->alive, __ATOMIC_SEQ_CST) != ALIVE) {
        fprintf(stderr, "storm: a callback has got user data that was destroyed\n");
        abort();
    }
    __atomic_fetch_add(&plan->inside, 1, __ATOMIC_SEQ_CST);
}

umbo_status leave(struct plan *plan, umbo_status status) {
    __atomic_fetch_sub(&plan->inside, 1, __ATOMIC_SEQ_CST);
    return status;
}

void destroy_plan(void *user_data) {
    struct plan *plan = (struct plan *)user_data;
    if (__atomic_exchange_n(&plan->alive, 0, __ATOMIC_SEQ_CST) != ALIVE)
        wrong(plan->thread, "user data is destroyed twice");
    if (__atomic_load_n(&plan->inside, __ATOMIC_SEQ_CST) != 0)
        wrong(plan->thread, "user data is destroyed while %d callbacks use it", plan->inside);
    __atomic_fetch_add(&plan->thread->destroyed[plan->strategy], 1, __ATOMIC_SEQ_CST);
    if (plan->gone != NULL) *plan->gone = 1;
    umbo_cancellation_release(plan->token);
    umbo_cancellation_release(plan->last_token);
    /* A nested run that was never begun. */
    if (plan->nested != NULL) umbo_cancellation_release(plan->nested->last_token);
    free(plan->nested);
    free(plan);
}

/* What an action adds to what the run changes. */
static void add_effect(struct plan *plan, int index) {
    const int64_t amount = plan->amounts[index];
    struct effect *effect = &plan->effect;
    int at;
    switch (plan->actions[index]) {
        case ADD:
        case MERGE_ADD:
        case UPDATE: effect->adds += amount; break;
        case ADD_GRID: effect->grid_adds += amount; break;
        case ASSIGN_NARROW: effect->narrow[amount % NARROWS] = amount; break;
        case APPLY: effect->amount = amount; break;
        case MERGE_RUN:
            effect->adds += plan->nested->effect.adds;
            effect->grid_adds += plan->nested->effect.grid_adds;
            for (at = 0; at < NARROWS; at++)
                if (plan->nested->effect.narrow[at] != 0)
                    effect->narrow[at] = plan->nested->effect.narrow[at];
            break;
        default: break;
    }
}

static void draw_nested(struct plan *plan, int index) {
    struct thread *thread = plan->thread;
    const int limited = one_in(thread, 24);
    plan->nested = draw_plan(thread, plan->strategy, plan->limited || limited, 1);
    if (limited) {
        plan->nested_deadline = 1e-4 + 1e-6 * below(thread, 1500);
        /* A nested run ends with the one around it, and may refuse limits of its own. */
        plan->may_end |=
            MAY(UMBO_STATUS_DEADLINE_EXCEEDED) | MAY(UMBO_STATUS_CANCELLED) | MAY(UMBO_STATUS_INVALID_ARGUMENT);
    }
    if (plan->failing_action < 0 || plan->failing_action > index) {
        if (!(plan->nested->may_end & MAY(UMBO_OK))) plan->may_end &= ~MAY(UMBO_OK);
        plan->may_end |= plan->nested->may_end & ~MAY(UMBO_OK);
    }
}

struct plan *draw_plan(struct thread *thread, int strategy, int limited, int is_nested) {
    struct plan *plan = new_plan(thread, strategy);
    int index, merges = 0;
    plan->limited = limited;
    plan->is_nested = is_nested;
    plan->count = below(thread, is_nested ? 3 : MOST_ACTIONS + 1);
    if (one_in(thread, 8)) {
        plan->failing_action = below(thread, plan->count + 1);
        plan->failing_replica = below(thread, replicas_of[strategy]);
        plan->may_end = MAY(UMBO_STATUS_ABORTED);
    }
    plan->stalling_replica = below(thread, replicas_of[strategy]);
    plan->stall_microseconds = one_in(thread, 3) ? 0 : below(thread, limited ? 1500 : 60);
    plan->cancels = one_in(thread, 6);
    for (index = 0; index < TRAINERS; index++)
        plan->before[index] = thread->expected[strategy].weights[index][0];
    for (index = 0; index < plan->count; index++) {
        enum action action = (enum action)below(thread, ACTIONS);
        plan->amounts[index] = 1 + below(thread, 9);
        /* One of these in a run, and none within another. */
        if ((action == MERGE_RUN && (is_nested || plan->nested != NULL)) ||
            (action == APPLY && (is_nested || plan->effect.trainer >= 0)))
            action = ADD;
        plan->actions[index] = action;
        merges |= action == MERGE_ADD || action == MERGE_UPDATE || action == MERGE_RUN;
        if (action == APPLY) plan->effect.trainer = below(thread, TRAINERS);
        if (action == MERGE_RUN) draw_nested(plan, index);
        add_effect(plan, index);
    }
    if (merges && one_in(thread, 12)) {
        plan->merge_fails = 1;
        plan->may_end = MAY(UMBO_STATUS_ABORTED);
    }
    return plan;
}
