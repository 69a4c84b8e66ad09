/* What runs do on their replicas and in merge calls. */
#define _GNU_SOURCE
#include <unistd.h>

#include "storm.h"

umbo_status assign_add(umbo_variable *variable, int64_t amount) {
    umbo_value *value = double_value((double)amount);
    const umbo_status status = umbo_variable_assign_add(variable, value);
    umbo_value_release(value);
    return status;
}

static umbo_status failing_update(umbo_variable *variable, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    UMBO_TRY(assign_add(variable, 1000000));
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "drawn", NULL, NULL);
}

static umbo_status adding_update(umbo_variable *variable, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    (void)args;
    (void)result;
    return assign_add(variable, *(const int64_t *)user_data);
}

struct merge {
    struct plan *plan;
    int action;
};

static umbo_status merged(umbo_strategy *strategy, struct merge *merge) {
    struct plan *plan = merge->plan;
    struct thread *thread = plan->thread;
    umbo_variable *variable = thread->objects[plan->strategy].sum;
    if (plan->merge_fails) return umbo_set_last_error(UMBO_STATUS_ABORTED, "drawn", NULL, NULL);
    switch (plan->actions[merge->action]) {
        case MERGE_ADD: return assign_add(variable, plan->amounts[merge->action]);
        case MERGE_UPDATE: {
            const umbo_status status =
                umbo_strategy_update(strategy, variable, failing_update, NULL, NULL, NULL);
            if (status == UMBO_OK) wrong(thread, "an update that failed has succeeded");
            return UMBO_OK;
        }
        case MERGE_RUN: {
            struct plan *nested = plan->nested;
            umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
            /* The first one that runs it takes it. */
            plan->nested = NULL;
            if (nested == NULL) return UMBO_OK;
            options.user_data_destroy = destroy_plan;
            if (plan->nested_deadline > 0) options.timeout_seconds = plan->nested_deadline;
            __atomic_fetch_add(&thread->nested, 1, __ATOMIC_SEQ_CST);
            __atomic_fetch_add(&thread->given[plan->strategy], 1, __ATOMIC_SEQ_CST);
            return umbo_strategy_run(strategy, on_a_replica, NULL, nested, &options, NULL);
        }
        default: return UMBO_OK;
    }
}

static umbo_status in_a_merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    struct merge *merge = (struct merge *)user_data;
    (void)args;
    (void)result;
    enter(merge->plan);
    return leave(merge->plan, merged(strategy, merge));
}

/* All-reduces own numbers, which are `own` from replica 0 and one more from each one after it. */
static umbo_status reduce_own(umbo_replica_context *context, umbo_value *own, umbo_value **sum) {
    const umbo_status status =
        umbo_replica_context_all_reduce(context, own, UMBO_REDUCE_SUM, sum);
    umbo_value_release(own);
    return status;
}

static umbo_status reduce(umbo_replica_context *context, struct plan *plan, int index, int32_t id) {
    const int64_t replicas = replicas_of[plan->strategy], amount = plan->amounts[index];
    const double expected = (double)(amount * replicas + replicas * (replicas - 1) / 2);
    umbo_value *sum = NULL;
    umbo_tensor *tensor;
    umbo_view view;
    int good;
    switch (plan->actions[index]) {
        case REDUCE_NARROW:
            UMBO_TRY(reduce_own(context, narrow_value((int)(amount % NARROWS), amount + id), &sum));
            tensor = look_at(sum, &view);
            good = narrow_number(view.dtype, *(const uint16_t *)view.data) == expected;
            umbo_tensor_release(tensor);
            break;
        case REDUCE_GRID:
            UMBO_TRY(reduce_own(context, grid_value(amount + id), &sum));
            good = is_grid(sum, expected);
            break;
        default:
            UMBO_TRY(reduce_own(context, double_value((double)(amount + id)), &sum));
            good = double_of(sum) == expected;
    }
    if (!good) wrong(plan->thread, "an all-reduce (action %d) gives not %g", index, expected);
    umbo_value_release(sum);
    return UMBO_OK;
}

/* Weights are, until the run is committed, what they were before it; a copy in 16 bits is near. */
static umbo_status look_at_weights(umbo_replica_context *context, struct plan *plan, int64_t amount) {
    const umbo_dtype dtype = amount % 2 == 0 ? UMBO_DTYPE_FLOAT16 : UMBO_DTYPE_BFLOAT16;
    int trainer;
    for (trainer = HALF; trainer < TRAINERS; trainer++) {
        umbo_variable *variable = plan->thread->objects[plan->strategy].weights[trainer];
        const double expected = (double)plan->before[trainer];
        const double magnitude = expected < 0 ? -expected : expected;
        umbo_view view;
        float shown = 0;
        uint16_t bits = 0;
        double number;
        UMBO_TRY(umbo_variable_view(variable, context, UMBO_DTYPE_NONE, &view));
        UMBO_TRY(get_number(context, &view, &shown));
        if ((double)shown != expected)
            wrong(plan->thread, "a view shows %g and not %g", (double)shown, expected);
        UMBO_TRY(umbo_variable_view(variable, context, dtype, &view));
        if (magnitude > 60000) continue; /* float16 ends there */
        UMBO_TRY(move_bytes(context, &view, &bits, sizeof(bits), 0));
        number = narrow_number(dtype, bits & 0x7fff);
        if (number - magnitude > magnitude / 128 || magnitude - number > magnitude / 128)
            wrong(plan->thread, "a copy in 16 bits shows %g and not %g", number, magnitude);
    }
    return UMBO_OK;
}

/* Writes the gradients of the plan's trainer. */
static umbo_status contribute(umbo_replica_context *context, struct plan *plan, int64_t amount) {
    const int trainer = plan->effect.trainer;
    umbo_gradients *gradients = plan->thread->objects[plan->strategy].gradients[trainer];
    umbo_view view, indices;
    float floats[4];
    uint16_t narrow[WIDTH];
    int at, column;
    if (trainer == TABLE || trainer == BRAIN_TABLE) {
        /* One row, named twice: in two calls or in one. */
        const int rows = amount % 2 == 0 ? 1 : 2;
        const size_t size = trainer == TABLE ? sizeof(floats[0]) : sizeof(narrow[0]);
        void *elements = trainer == TABLE ? (void *)floats : (void *)narrow;
        int64_t named[2];
        int row;
        for (at = 0; at < 2 / rows; at++) {
            UMBO_TRY(umbo_gradients_add_rows(gradients, context, 0, rows, &indices, &view));
            for (row = 0; row < rows; row++) {
                named[row] = amount % WIDTH;
                for (column = 0; column < 2; column++) {
                    const int64_t number = amount * (1 + column);
                    floats[2 * row + column] = (float)number;
                    narrow[2 * row + column] = narrow_bits(UMBO_DTYPE_BFLOAT16, number);
                }
            }
            UMBO_TRY(move_bytes(context, &indices, named, (size_t)rows * sizeof(named[0]), 1));
            UMBO_TRY(move_bytes(context, &view, elements, (size_t)rows * 2 * size, 1));
        }
    } else {
        UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
        if (trainer == DOUBLE) {
            double number = (double)amount;
            UMBO_TRY(move_bytes(context, &view, &number, sizeof(number), 1));
        } else {
            for (at = 0; at < WIDTH; at++) narrow[at] = narrow_bits(view.dtype, amount + at);
            UMBO_TRY(move_bytes(context, &view, narrow, sizeof(narrow), 1));
        }
    }
    return umbo_gradients_submit_weighted(gradients, context, 1);
}

static umbo_status assign(umbo_variable *variable, umbo_value *value) {
    const umbo_status status = umbo_variable_assign(variable, value);
    umbo_value_release(value);
    return status;
}

static umbo_status add_grid(umbo_variable *variable, int64_t amount) {
    umbo_value *value = grid_value(amount);
    const umbo_status status = umbo_variable_assign_add(variable, value);
    umbo_value_release(value);
    return status;
}

static umbo_status act(umbo_replica_context *context, struct plan *plan, int index, int32_t id) {
    struct thread *thread = plan->thread;
    const struct objects *objects = &thread->objects[plan->strategy];
    const int64_t amount = plan->amounts[index];
    switch (plan->actions[index]) {
        case ADD: return assign_add(objects->sum, amount);
        case ASSIGN_NARROW: {
            const int which = (int)(amount % NARROWS);
            return assign(objects->narrow[which], narrow_value(which, amount));
        }
        case ADD_GRID: return add_grid(objects->grid, amount);
        case ALL_REDUCE:
        case REDUCE_NARROW:
        case REDUCE_GRID: return reduce(context, plan, index, id);
        case VIEWS: return look_at_weights(context, plan, amount);
        case MERGE_ADD:
        case MERGE_UPDATE:
        case MERGE_RUN: {
            struct merge merge;
            merge.plan = plan;
            merge.action = index;
            return umbo_replica_context_merge_call(context, in_a_merge, NULL, &merge, NULL);
        }
        case UPDATE: {
            int64_t own = amount;
            return umbo_strategy_update(strategies[plan->strategy], objects->sum, adding_update,
                                        NULL, &own, NULL);
        }
        case APPLY:
            UMBO_TRY(contribute(context, plan, amount));
            return umbo_optimizer_apply(objects->optimizers[plan->effect.trainer],
                                        objects->gradients[plan->effect.trainer], NULL, NULL);
        case STALL:
            if (id == plan->stalling_replica) {
                /* The token of this run, or in one that has none, of an earlier run: that may stop
                 * runs of others, but not this one. */
                if (plan->cancels && (plan->token != NULL || plan->last_token != NULL)) {
                    CHECK_OK(umbo_cancellation_cancel(plan->token != NULL ? plan->token
                                                                          : plan->last_token));
                    if (plan->run != 0) __atomic_store_n(&thread->cancelled_run, plan->run, __ATOMIC_SEQ_CST);
                }
                if (plan->stall_microseconds > 0) usleep((unsigned)plan->stall_microseconds);
            }
            return UMBO_OK;
        case METRIC: return umbo_replica_context_add_metric(context, "m", 1, 1);
        default: return UMBO_OK;
    }
}

static umbo_status act_all(umbo_replica_context *context, struct plan *plan, umbo_value **result) {
    const int32_t replicas = replicas_of[plan->strategy];
    /* Also fails if the context is not that of this run. */
    const int32_t id = replica_id(context);
    int index;
    CHECK(id >= 0 && id < replicas);
    for (index = 0; index <= plan->count; index++) {
        if (index == plan->failing_action && id == plan->failing_replica)
            return umbo_set_last_error(UMBO_STATUS_ABORTED, "drawn", NULL, NULL);
        if (index < plan->count) UMBO_TRY(act(context, plan, index, id));
    }
    *result = double_value((double)id);
    return UMBO_OK;
}

umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    struct plan *plan = (struct plan *)user_data;
    umbo_status status;
    int32_t is_over = 0;
    (void)args;
    enter(plan);
    if (!plan->is_nested && replica_id(context) == 0)
        __atomic_fetch_add(&started[plan->strategy], 1, __ATOMIC_SEQ_CST);
    status = act_all(context, plan, result);
    CHECK_OK(umbo_replica_context_is_cancelled(context, &is_over));
    if (is_over && plan->limited) __atomic_fetch_add(&late_callbacks, 1, __ATOMIC_SEQ_CST);
    if (is_over && !plan->limited && plan->may_end == MAY(UMBO_OK))
        wrong(plan->thread, "a run without limits in which nothing fails is told to stop");
    return leave(plan, status);
}
