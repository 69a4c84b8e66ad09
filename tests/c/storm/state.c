/* The variables and gradients of each thread, and what a model says that they are. */
#include "storm.h"

static const umbo_dtype narrow_dtypes[NARROWS] = {UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16};
/* Of the gradients of each trainer; 0 for that of its variable. */
static const umbo_dtype gradient_dtypes[TRAINERS] = {0, UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16, 0,
                                                     UMBO_DTYPE_BFLOAT16};

/* ---- numbers in 16 bits: integers from 1 to 255, which both types have */

uint16_t narrow_bits(umbo_dtype dtype, int64_t number) {
    const float single = (float)number;
    uint32_t bits;
    int exponent = 0;
    if (dtype == UMBO_DTYPE_BFLOAT16) {
        memcpy(&bits, &single, sizeof(bits));
        return (uint16_t)(bits >> 16);
    }
    if (number == 0) return 0;
    while (number >> (exponent + 1) != 0) exponent++;
    return (uint16_t)((exponent + 15) << 10 | (int)((number - (1 << exponent)) << (10 - exponent)));
}

double narrow_number(umbo_dtype dtype, uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    const int exponent = (bits >> 10 & 31) - 15;
    float single;
    if (dtype == UMBO_DTYPE_BFLOAT16) {
        memcpy(&single, &wide, sizeof(single));
        return single;
    }
    if (bits == 0) return 0;
    /* 2^exponent * (1024 + mantissa) / 1024 */
    return (double)(1024 + (bits & 1023)) * (double)(1 << (exponent + 15)) / (1024.0 * 32768.0);
}

umbo_value *narrow_value(int which, int64_t number) {
    const uint16_t bits = narrow_bits(narrow_dtypes[which], number);
    return into_value(make_tensor(narrow_dtypes[which], 0, NULL, &bits));
}

umbo_value *double_value(double number) {
    return into_value(make_tensor(UMBO_DTYPE_FLOAT64, 0, NULL, &number));
}

/* A tensor whose elements the processor can read, and a view of it; gives the other one up. */
static umbo_tensor *on_host(umbo_tensor *tensor, umbo_view *view) {
    umbo_tensor *copy = NULL;
    CHECK_OK(umbo_tensor_view(tensor, view));
    if (view->device.type != UMBO_DEVICE_GPU) return tensor;
    CHECK_OK(umbo_tensor_copy(tensor, "CPU:0", &copy));
    umbo_tensor_release(tensor);
    CHECK_OK(umbo_tensor_view(copy, view));
    return copy;
}

umbo_tensor *look_at(const umbo_value *value, umbo_view *view) {
    umbo_tensor *tensor = NULL;
    CHECK_OK(umbo_value_tensor(value, &tensor));
    return on_host(tensor, view);
}

double double_of(const umbo_value *value) {
    umbo_view view;
    umbo_tensor *tensor = look_at(value, &view);
    double number;
    CHECK(view.dtype == UMBO_DTYPE_FLOAT64);
    number = *(const double *)view.data;
    umbo_tensor_release(tensor);
    return number;
}

/* ---- grids */

umbo_value *grid_value(int64_t number) {
    float elements[2 * GRID_ROWS * GRID_COLUMNS];
    umbo_tensor *whole, *part = NULL;
    int row, column;
    if (number % 2 == 0) { /* every second column of a matrix */
        const int64_t shape[2] = {GRID_ROWS, 2 * GRID_COLUMNS};
        for (row = 0; row < GRID_ROWS; row++)
            for (column = 0; column < 2 * GRID_COLUMNS; column++)
                elements[row * 2 * GRID_COLUMNS + column] =
                    (float)(number * (column % 2 == 0 ? 1 + row * GRID_COLUMNS + column / 2 : -1));
        whole = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, elements);
        CHECK_OK(umbo_tensor_slice(whole, 1, 0, 2 * GRID_COLUMNS, 2, &part));
    } else { /* a matrix, transposed */
        const int64_t shape[2] = {GRID_COLUMNS, GRID_ROWS};
        for (column = 0; column < GRID_COLUMNS; column++)
            for (row = 0; row < GRID_ROWS; row++)
                elements[column * GRID_ROWS + row] =
                    (float)(number * (1 + row * GRID_COLUMNS + column));
        whole = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, elements);
        CHECK_OK(umbo_tensor_transpose(whole, NULL, &part));
    }
    umbo_tensor_release(whole);
    return into_value(part);
}

static int is_grid_view(const umbo_view *view, double number) {
    int row, column;
    CHECK(view->dtype == UMBO_DTYPE_FLOAT32 && view->ndim == 2);
    CHECK(view->shape[0] == GRID_ROWS && view->shape[1] == GRID_COLUMNS);
    for (row = 0; row < GRID_ROWS; row++)
        for (column = 0; column < GRID_COLUMNS; column++) {
            const float element = ((const float *)view->data)[row * view->strides[0] +
                                                              column * view->strides[1]];
            if ((double)element != number * (1 + row * GRID_COLUMNS + column)) return 0;
        }
    return 1;
}

int is_grid(const umbo_value *value, double number) {
    umbo_view view;
    umbo_tensor *tensor = look_at(value, &view);
    const int is_one = is_grid_view(&view, number);
    umbo_tensor_release(tensor);
    return is_one;
}

/* ---- the model */

void take_effect(struct state *state, const struct effect *effect) {
    int at;
    state->sum += effect->adds;
    state->grid += effect->grid_adds;
    for (at = 0; at < NARROWS; at++)
        if (effect->narrow[at] != 0) state->narrow[at] = effect->narrow[at];
    switch (effect->trainer) {
        case DOUBLE: state->weights[DOUBLE][0] -= effect->amount; break;
        case HALF:
        case BRAIN:
            for (at = 0; at < WIDTH; at++) state->weights[effect->trainer][at] -= effect->amount + at;
            break;
        case TABLE:
        case BRAIN_TABLE: /* each replica names the row twice */
            state->weights[effect->trainer][effect->amount % WIDTH] -= 2 * effect->amount;
            break;
        default: break;
    }
}

/* A copy of a variable, and a view of that. */
static umbo_tensor *look(const umbo_variable *variable, umbo_view *view) {
    umbo_tensor *tensor = NULL;
    CHECK_OK(umbo_variable_read(variable, &tensor));
    return on_host(tensor, view);
}

static int are_weights(const umbo_variable *variable, int trainer, const int64_t *expected) {
    umbo_view view;
    umbo_tensor *tensor = look(variable, &view);
    const float *floats = (const float *)view.data;
    int at, good = 1;
    for (at = 0; at < WIDTH && good; at++) {
        if (trainer == DOUBLE)
            good = at > 0 || *(const double *)view.data == (double)expected[0];
        else if (trainer == TABLE || trainer == BRAIN_TABLE)
            good = floats[2 * at] == (float)expected[at] &&
                   floats[2 * at + 1] == 2 * (float)expected[at];
        else
            good = floats[at] == (float)expected[at];
    }
    umbo_tensor_release(tensor);
    return good;
}

void check_state(struct thread *thread, int strategy, const char *after) {
    const struct objects *objects = &thread->objects[strategy];
    const struct state *expected = &thread->expected[strategy];
    umbo_view view;
    umbo_tensor *tensor = look(objects->sum, &view);
    int at;
    if (*(const double *)view.data != (double)expected->sum)
        wrong(thread, "after %s on strategy %d the sum is %.0f and not %lld", after, strategy,
              *(const double *)view.data, (long long)expected->sum);
    umbo_tensor_release(tensor);
    for (at = 0; at < NARROWS; at++) {
        tensor = look(objects->narrow[at], &view);
        if (*(const uint16_t *)view.data != narrow_bits(narrow_dtypes[at], expected->narrow[at]))
            wrong(thread, "after %s on strategy %d narrow number %d is %.0f and not %lld", after,
                  strategy, at, narrow_number(narrow_dtypes[at], *(const uint16_t *)view.data),
                  (long long)expected->narrow[at]);
        umbo_tensor_release(tensor);
    }
    tensor = look(objects->grid, &view);
    if (!is_grid_view(&view, (double)expected->grid))
        wrong(thread, "after %s on strategy %d the grid is not %lld times 1 to 6 but %g...", after,
              strategy, (long long)expected->grid, (double)*(const float *)view.data);
    umbo_tensor_release(tensor);
    for (at = 0; at < TRAINERS; at++)
        if (!are_weights(objects->weights[at], at, expected->weights[at]))
            wrong(thread, "after %s on strategy %d the weights of trainer %d are wrong", after,
                  strategy, at);
}

/* ---- making and releasing it all */

static umbo_variable *make(umbo_strategy *strategy, umbo_dtype dtype, int32_t rank,
                           const int64_t *shape) {
    umbo_variable *variable = NULL;
    umbo_tensor *zeros = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.aggregation = UMBO_AGGREGATION_MEAN;
    CHECK_OK(umbo_tensor_create_zeros(dtype, rank, shape, NULL, &zeros));
    CHECK_OK(umbo_variable_create(strategy, "v", zeros, &options, &variable));
    umbo_tensor_release(zeros);
    return variable;
}

static void make_trainer(umbo_strategy *strategy, struct objects *objects, int trainer) {
    const int64_t shape[2] = {WIDTH, 2};
    const int32_t row_sparse = trainer == TABLE || trainer == BRAIN_TABLE;
    const int32_t rank = trainer == DOUBLE ? 0 : 1 + row_sparse;
    umbo_variable *weights;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    options.dtype = gradient_dtypes[trainer];
    options.row_sparse = &row_sparse;
    sgd.learning_rate = 1;
    objects->weights[trainer] =
        make(strategy, trainer == DOUBLE ? UMBO_DTYPE_FLOAT64 : UMBO_DTYPE_FLOAT32, rank, shape);
    weights = objects->weights[trainer];
    CHECK_OK(umbo_gradients_create(strategy, 1, &weights, UMBO_LOSS_SUM, &options, &objects->gradients[trainer]));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &objects->optimizers[trainer]));
}

/* Where the replicas of a strategy are: on CPUs, or as the seed says on GPUs and beside them. */
static void place(umbo_strategy_options *options, int which) {
    static const char *const gpus[2] = {"GPU:0", "GPU:1"}, *const both[2] = {"CPU:0", "GPU:1"};
    /* The replicas of the largest share their devices. */
    const int devices = replicas_of[which] == 3 ? 2 : replicas_of[which];
    options->replicas_in_sync = replicas_of[which];
    if (gpu_seed < 0) {
        options->cpu_replicas = devices;
        return;
    }
    options->compute_devices = replicas_of[which] == 2 && gpu_seed % 2 == 1 ? both : gpus;
    options->compute_device_count = devices;
    if (replicas_of[which] == 3) options->parameter_device = gpu_seed % 2 == 1 ? "GPU:1" : "CPU:0";
}

void make_objects(void) {
    const int64_t grid[2] = {GRID_ROWS, GRID_COLUMNS};
    int which, index, at;
    for (which = 0; which < STRATEGIES; which++) {
        umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
        place(&options, which);
        CHECK_OK(umbo_strategy_create(&options, &strategies[which]));
        for (index = 0; index < thread_count; index++) {
            struct objects *objects = &threads[index].objects[which];
            objects->sum = make(strategies[which], UMBO_DTYPE_FLOAT64, 0, NULL);
            objects->grid = make(strategies[which], UMBO_DTYPE_FLOAT32, 2, grid);
            for (at = 0; at < NARROWS; at++)
                objects->narrow[at] = make(strategies[which], narrow_dtypes[at], 0, NULL);
            for (at = 0; at < TRAINERS; at++) make_trainer(strategies[which], objects, at);
        }
    }
}

void release_objects(void) {
    int which, index, at;
    for (which = 0; which < STRATEGIES; which++) {
        for (index = 0; index < thread_count; index++) {
            struct objects *objects = &threads[index].objects[which];
            for (at = 0; at < TRAINERS; at++) {
                umbo_optimizer_release(objects->optimizers[at]);
                umbo_gradients_release(objects->gradients[at]);
                umbo_variable_release(objects->weights[at]);
            }
            for (at = 0; at < NARROWS; at++) umbo_variable_release(objects->narrow[at]);
            umbo_variable_release(objects->grid);
            umbo_variable_release(objects->sum);
        }
        umbo_strategy_release(strategies[which]);
    }
}
