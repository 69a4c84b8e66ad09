/* Rules of the program's, which have the bits of the built-in ones, and gradients that are looked at
 * before they are applied. */
#include "check.h"

enum { REPLICAS = 3, ROWS = 700, WIDTH = 3, ELEMENTS = ROWS * WIDTH, STEPS = 5 };

/* The built-in rule "momentum", in float32. */
typedef struct {
    float momentum;
    int destroyed;
} momentum_rule;

static void momentum_update(const umbo_update_tile *tile, void *user_data) {
    const momentum_rule *rule = (const momentum_rule *)user_data;
    const float rate = (float)tile->learning_rate;
    float *weights = (float *)tile->weights, *sums = (float *)tile->states[0];
    const float *gradient = (const float *)tile->gradient;
    int64_t index;
    CHECK(tile->struct_size == sizeof(*tile));
    CHECK(tile->dtype == UMBO_DTYPE_FLOAT32 && tile->state_count == 1 && tile->count > 0);
    CHECK(tile->first >= 0 && tile->first + tile->count <= ELEMENTS && tile->weight_decay == 0);
    for (index = 0; index < tile->count; index++) {
        sums[index] = rule->momentum * sums[index] + gradient[index];
        weights[index] = weights[index] - rate * sums[index];
    }
}

static void sgd_update(const umbo_update_tile *tile, void *user_data) {
    const float rate = (float)tile->learning_rate;
    float *weights = (float *)tile->weights;
    const float *gradient = (const float *)tile->gradient;
    int64_t index;
    CHECK(user_data == NULL && tile->state_count == 0);
    for (index = 0; index < tile->count; index++) weights[index] = weights[index] - rate * gradient[index];
}

/* What the tile says beside the elements: each element becomes it. */
static void tell_update(const umbo_update_tile *tile, void *user_data) {
    float *weights = (float *)tile->weights, *first = (float *)tile->states[0];
    double *kept = (double *)user_data;
    int64_t index;
    for (index = 0; index < tile->count; index++) {
        weights[index] = (float)tile->step;
        first[index] += 1;
    }
    kept[0] = tile->weight_decay;
    kept[1] = tile->learning_rate;
}

static void note_destroyed(void *user_data) { ((momentum_rule *)user_data)->destroyed++; }

typedef struct {
    umbo_gradients *gradients;
    int step;
    int rows;
    umbo_dtype dtype;
} training;

/* A number that float32 and bfloat16 both hold. */
static float number(int64_t element, int replica, int step) {
    return (float)((element * 7 + replica * 5 + step * 3) % 64 - 31) / 8.0f;
}

static void put(void *to, umbo_dtype dtype, int64_t at, float value) {
    if (dtype == UMBO_DTYPE_FLOAT32) {
        ((float *)to)[at] = value;
    } else {
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        ((uint16_t *)to)[at] = (uint16_t)(bits >> 16);
    }
}

static umbo_status give(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view indices, view;
    int32_t replica = 0;
    int64_t row, at;
    (void)args;
    (void)result;
    replica = replica_id(ctx);
    if (self->rows) {
        UMBO_TRY(umbo_gradients_add_rows(self->gradients, ctx, 0, 40, &indices, &view));
        for (row = 0; row < 40; row++) ((int64_t *)indices.mutable_data)[row] = (row * 37 + replica) % 50;
        for (at = 0; at < 40 * WIDTH; at++)
            put(view.mutable_data, self->dtype, at, number(at, replica, self->step));
    } else {
        UMBO_TRY(umbo_gradients_view(self->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
        for (at = 0; at < ELEMENTS; at++)
            put(view.mutable_data, self->dtype, at, number(at, replica, self->step));
    }
    return umbo_gradients_submit_weighted(self->gradients, ctx, replica + 1);
}

static umbo_variable *table(umbo_strategy *strategy, int zero) {
    const int64_t shape[2] = {ROWS, WIDTH};
    static float data[ELEMENTS];
    umbo_tensor *initial;
    umbo_variable *variable = NULL;
    int64_t at;
    for (at = 0; at < ELEMENTS; at++) data[at] = zero ? 0 : number(at, 9, 9);
    initial = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, data);
    CHECK_OK(umbo_variable_create(strategy, "table", initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static umbo_status halving(int64_t step, void *user_data, double *learning_rate) {
    (void)user_data;
    *learning_rate = 0.3 / (double)(step + 1);
    return UMBO_OK;
}

static umbo_optimizer *custom_momentum(umbo_strategy *strategy, momentum_rule *rule) {
    const char *const names[1] = {"momentum"};
    umbo_custom_rule_options options = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    options.name = "own momentum";
    options.state_count = 1;
    options.state_names = names;
    CHECK_OK(umbo_optimizer_create_custom(strategy, momentum_update, rule, note_destroyed, &options,
                                          &optimizer));
    return optimizer;
}

static int same_tensors(umbo_tensor *a, umbo_tensor *b) {
    umbo_view left, right;
    int same;
    CHECK_OK(umbo_tensor_view(a, &left));
    CHECK_OK(umbo_tensor_view(b, &right));
    same = memcmp(left.data, right.data, ELEMENTS * sizeof(float)) == 0;
    umbo_tensor_release(a);
    umbo_tensor_release(b);
    return same;
}

/* Trains twice, by the built-in momentum and by the program's, and compares all bits. */
static void same_bits(umbo_strategy *strategy, int rows, umbo_dtype dtype, int64_t accumulation,
                      int clips, int scheduled) {
    const int32_t row_sparse[1] = {1};
    momentum_rule rule = {0.9f, 0};
    umbo_variable *variables[2];
    umbo_optimizer *optimizers[2] = {NULL, NULL};
    umbo_tensor *values[2] = {NULL, NULL}, *states[2] = {NULL, NULL};
    umbo_view copies[2];
    int which, step;
    CHECK_OK(umbo_optimizer_create_momentum(strategy, NULL, &optimizers[0]));
    optimizers[1] = custom_momentum(strategy, &rule);
    for (which = 0; which < 2; which++) {
        umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
        umbo_optimizer_options around = UMBO_OPTIMIZER_OPTIONS_INIT;
        umbo_group_options group = UMBO_GROUP_OPTIONS_INIT;
        training self = {NULL, 0, 0, UMBO_DTYPE_FLOAT32};
        variables[which] = table(strategy, 0);
        how.accumulation_steps = accumulation;
        if (rows) how.row_sparse = row_sparse;
        if (dtype != UMBO_DTYPE_FLOAT32) how.dtype = dtype;
        if (clips) {
            around.global_clip_norm = 20;
            around.clip_value = 0.75;
            around.weight_decay = 0.125;
            around.loss_scaling = UMBO_LOSS_SCALING_FIXED;
            around.loss_scale = 4;
            CHECK_OK(umbo_optimizer_configure(optimizers[which], &around));
            group.learning_rate_factor = 0.3;
            CHECK_OK(umbo_optimizer_add_group(optimizers[which], 1, &variables[which], &group));
        }
        if (scheduled) CHECK_OK(umbo_optimizer_set_schedule(optimizers[which], halving, NULL, NULL));
        CHECK_OK(umbo_gradients_create(strategy, 1, &variables[which], UMBO_LOSS_MEAN, &how, &self.gradients));
        self.rows = rows;
        self.dtype = dtype;
        CHECK_OK(umbo_variable_view(variables[which], NULL, UMBO_DTYPE_BFLOAT16, &copies[which]));
        for (step = 0; step < STEPS; step++) {
            self.step = step;
            CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
            CHECK_OK(umbo_optimizer_apply(optimizers[which], self.gradients, NULL, NULL));
        }
        umbo_gradients_release(self.gradients);
        CHECK_OK(umbo_variable_view(variables[which], NULL, UMBO_DTYPE_BFLOAT16, &copies[which]));
        CHECK_OK(umbo_variable_read(variables[which], &values[which]));
        CHECK_OK(umbo_optimizer_read_state(optimizers[which], variables[which], "momentum", &states[which]));
    }
    CHECK(memcmp(copies[0].data, copies[1].data, ELEMENTS * sizeof(uint16_t)) == 0);
    CHECK(same_tensors(values[0], values[1]));
    CHECK(same_tensors(states[0], states[1]));
    for (which = 0; which < 2; which++) {
        CHECK(rule.destroyed == 0);
        umbo_optimizer_release(optimizers[which]);
        umbo_variable_release(variables[which]);
    }
    CHECK(rule.destroyed == 1);
}

/* What is read before the apply is what SGD with the rate 1 takes from a weight of 0. */
static void reduced(umbo_strategy *strategy, int rows, umbo_dtype dtype, int64_t accumulation) {
    const int32_t row_sparse[1] = {1};
    umbo_custom_rule_options options = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_optimizer_options around = UMBO_OPTIMIZER_OPTIONS_INIT;
    training self = {NULL, 0, 0, UMBO_DTYPE_FLOAT32};
    umbo_variable *variable = table(strategy, 1);
    umbo_optimizer *optimizer = NULL;
    umbo_value *found = NULL, *again = NULL;
    umbo_tensor *value = NULL;
    umbo_view view, before, indices, values;
    int64_t run, at;
    options.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_custom(strategy, sgd_update, NULL, NULL, &options, &optimizer));
    around.loss_scaling = UMBO_LOSS_SCALING_FIXED;
    around.loss_scale = 8;
    CHECK_OK(umbo_optimizer_configure(optimizer, &around));
    how.accumulation_steps = accumulation;
    if (rows) how.row_sparse = row_sparse;
    if (dtype != UMBO_DTYPE_FLOAT32) how.dtype = dtype;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_MEAN, &how, &self.gradients));
    self.rows = rows;
    self.dtype = dtype;
    CHECK_STATUS(umbo_gradients_reduced(self.gradients, 0, optimizer, &found),
                 UMBO_STATUS_FAILED_PRECONDITION);
    for (run = 0; run < accumulation; run++) {
        if (run > 0) CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
        self.step = (int)run;
        CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
        /* Looking changes nothing, however often. */
        CHECK_OK(umbo_gradients_reduced(self.gradients, 0, NULL, &again));
        umbo_value_release(again);
    }
    CHECK_STATUS(umbo_gradients_reduced(self.gradients, 1, optimizer, &found), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_OK(umbo_gradients_reduced(self.gradients, 0, optimizer, &found));
    CHECK_OK(umbo_gradients_reduced(self.gradients, 0, NULL, &again));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    CHECK_STATUS(umbo_gradients_reduced(self.gradients, 0, optimizer, &again),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_OK(umbo_variable_read(variable, &value));
    CHECK_OK(umbo_tensor_view(value, &view));
    if (rows) {
        umbo_tensor *parts[2] = {NULL, NULL};
        CHECK(kind_of(found) == UMBO_VALUE_INDEXED_SLICES);
        CHECK_OK(umbo_value_indexed_slices(found, &parts[0], &parts[1]));
        CHECK_OK(umbo_tensor_view(parts[0], &values));
        CHECK_OK(umbo_tensor_view(parts[1], &indices));
        CHECK(values.shape[0] == indices.shape[0] && values.shape[1] == WIDTH && indices.shape[0] == 50);
        for (at = 0; at < values.shape[0] * WIDTH; at++) {
            const int64_t row = ((const int64_t *)indices.data)[at / WIDTH];
            CHECK(row == at / WIDTH); /* ascending, each once */
            CHECK(((const float *)values.data)[at] == -((const float *)view.data)[at]);
        }
        umbo_tensor_release(parts[0]);
        umbo_tensor_release(parts[1]);
    } else {
        CHECK_OK(umbo_value_view(found, NULL, UMBO_DTYPE_NONE, &values));
        CHECK_OK(umbo_value_view(again, NULL, UMBO_DTYPE_NONE, &before));
        for (at = 0; at < ELEMENTS; at++) {
            CHECK(((const float *)values.data)[at] == -((const float *)view.data)[at]);
            if (accumulation == 1)
                CHECK(((const float *)before.data)[at] == 8 * ((const float *)values.data)[at]);
        }
    }
    umbo_tensor_release(value);
    umbo_value_release(found);
    umbo_value_release(again);
    umbo_gradients_release(self.gradients);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
}

static void tiles_and_refusals(umbo_strategy *strategy) {
    const char *const names[2] = {"count", "count"};
    const double initials[2] = {5, 6};
    double kept[2] = {-1, -1};
    momentum_rule rule = {0, 0};
    umbo_custom_rule_options options = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    training self = {NULL, 0, 0, UMBO_DTYPE_FLOAT32};
    umbo_variable *variable = table(strategy, 0);
    umbo_optimizer *optimizer = NULL;
    umbo_tensor *tensor = NULL;
    umbo_view view;
    double value = 0;
    options.state_count = 1;
    options.state_names = names;
    options.state_initials = initials;
    options.weight_decay = 0.5;
    options.decoupled_weight_decay = 1;
    CHECK_OK(umbo_optimizer_create_custom(strategy, tell_update, kept, NULL, &options, &optimizer));
    CHECK(strcmp(optimizer_info_of(optimizer).rule, "custom") == 0);
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, "weight_decay", &value));
    CHECK(value == 0.5);
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, "decoupled_weight_decay", &value));
    CHECK(value == 1);
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, "state_count", &value));
    CHECK(value == 1);
    self.gradients = make_mean_gradients(strategy, variable, 0);
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    CHECK(kept[0] == 0.5 && kept[1] == 0.01);
    CHECK_OK(umbo_optimizer_read_state(optimizer, variable, "count", &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(((const float *)view.data)[ELEMENTS - 1] == 7);
    umbo_tensor_release(tensor);
    CHECK_OK(umbo_variable_read(variable, &tensor));
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(((const float *)view.data)[0] == 1);
    umbo_tensor_release(tensor);
    CHECK_STATUS(umbo_optimizer_read_state(optimizer, variable, "m", &tensor), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("count");
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(variable);

    /* The user data is taken over whatever happens. */
    optimizer = NULL;
    options.state_count = 2;
    CHECK_STATUS(umbo_optimizer_create_custom(strategy, momentum_update, &rule, note_destroyed, &options,
                                              &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("state_names");
    options.state_count = 0;
    options.weight_decay = -1;
    CHECK_STATUS(umbo_optimizer_create_custom(strategy, momentum_update, &rule, note_destroyed, &options,
                                              &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_optimizer_create_custom(strategy, NULL, &rule, note_destroyed, NULL, &optimizer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(rule.destroyed == 3 && optimizer == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    int clips;
    for (clips = 0; clips < 2; clips++) {
        same_bits(strategy, 0, UMBO_DTYPE_FLOAT32, 1, clips, 0);
        same_bits(strategy, 0, UMBO_DTYPE_BFLOAT16, 1, clips, 0);
        same_bits(strategy, 0, UMBO_DTYPE_FLOAT32, 2, clips, 1);
        same_bits(strategy, 1, UMBO_DTYPE_FLOAT32, 1, clips, 1);
        same_bits(strategy, 1, UMBO_DTYPE_BFLOAT16, 2, clips, 0);
    }
    reduced(strategy, 0, UMBO_DTYPE_FLOAT32, 1);
    reduced(strategy, 0, UMBO_DTYPE_BFLOAT16, 3);
    reduced(strategy, 1, UMBO_DTYPE_FLOAT32, 1);
    reduced(strategy, 1, UMBO_DTYPE_FLOAT32, 2);
    tiles_and_refusals(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
