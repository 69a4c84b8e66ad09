/* Rows that come and go: what an optimizer keeps for a row moves with it, and what is refused changes nothing. */
#include "check.h"

enum { WIDTH = 2 };

typedef struct {
    umbo_strategy *strategy;
    umbo_variable *table;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
} training;

/* Element i of the gradient is i + 1. */
static umbo_status give(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient;
    int64_t i;
    (void)args, (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (i = 0; i < gradient.shape[0] * WIDTH; i++) ((float *)gradient.mutable_data)[i] = (float)(i + 1);
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

static umbo_tensor *rows(int64_t count, float first) {
    const int64_t shape[2] = {count, WIDTH};
    float data[16];
    int64_t i;
    for (i = 0; i < count * WIDTH; i++) data[i] = first + (float)i;
    return make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, data);
}

static umbo_variable *make_table(umbo_strategy *strategy, int64_t count) {
    umbo_variable *table = NULL;
    umbo_tensor *initial = rows(count, 100);
    CHECK_OK(umbo_variable_create(strategy, "table", initial, NULL, &table));
    umbo_tensor_release(initial);
    return table;
}

static training begin(umbo_strategy *strategy, umbo_average kind) {
    umbo_momentum_options momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    umbo_optimizer_options around = UMBO_OPTIMIZER_OPTIONS_INIT;
    training self = {NULL, NULL, NULL, NULL};
    self.strategy = strategy;
    self.table = make_table(strategy, 3);
    self.gradients = make_mean_gradients(strategy, self.table, 0);
    momentum.learning_rate = 1;
    momentum.momentum = 0.5;
    around.average = kind;
    CHECK_OK(umbo_optimizer_create_momentum(strategy, &momentum, &self.optimizer));
    CHECK_OK(umbo_optimizer_configure(self.optimizer, &around));
    return self;
}

static void end(training *self) {
    umbo_optimizer_release(self->optimizer);
    umbo_gradients_release(self->gradients);
    umbo_variable_release(self->table);
}

static void step(const training *self) {
    CHECK_OK(umbo_strategy_run(self->strategy, give, NULL, (void *)self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
}

/* The elements of a tensor, which is given up, or of the table. */
static void expect(umbo_tensor *tensor, int64_t count, const float *expected) {
    float found[16] = {0};
    CHECK_OK(umbo_tensor_download(tensor, found, (size_t)(count * WIDTH) * sizeof(float)));
    CHECK(memcmp(found, expected, (size_t)(count * WIDTH) * sizeof(float)) == 0);
    umbo_tensor_release(tensor);
}

static void expect_table(const training *self, int64_t count, const float *values, const float *momentum,
                         const float *average) {
    umbo_tensor *tensor = NULL;
    CHECK(facts_of(self->table).shape[0] == count && strcmp(facts_of(self->table).name, "table") == 0);
    CHECK_OK(umbo_variable_read(self->table, &tensor));
    expect(tensor, count, values);
    CHECK_OK(umbo_optimizer_read_state(self->optimizer, self->table, "momentum", &tensor));
    expect(tensor, count, momentum);
    if (average == NULL) return;
    CHECK_OK(umbo_optimizer_read_state(self->optimizer, self->table, "average", &tensor));
    expect(tensor, count, average);
}

/* The changed table takes the place of the one before. */
static void change(training *self, int64_t kept_count, const int64_t *kept_rows, umbo_tensor *appended) {
    umbo_variable *changed = NULL;
    CHECK_OK(umbo_optimizer_change_rows(self->optimizer, self->table, kept_count, kept_rows, appended, &changed));
    umbo_tensor_release(appended);
    umbo_variable_release(self->table);
    umbo_gradients_release(self->gradients);
    self->table = changed;
    self->gradients = make_mean_gradients(self->strategy, changed, 0);
}

static void moves(umbo_strategy *strategy) {
    const int64_t kept[2] = {2, 0};
    const float values[6] = {99, 99, 99, 99, 7, 8}, momentum[6] = {5, 6, 1, 2, 0, 0};
    const float later[6] = {95.5F, 94, 95.5F, 94, 2, 2}, more[6] = {3.5F, 5, 3.5F, 5, 5, 6};
    training self = begin(strategy, UMBO_AVERAGE_EXPONENTIAL);
    step(&self);
    change(&self, 2, kept, rows(1, 7));
    expect_table(&self, 3, values, momentum, values);
    step(&self);
    expect_table(&self, 3, later, more, NULL);
    /* The first rows, none behind them; then none at all, and one again. */
    change(&self, 2, NULL, NULL);
    expect_table(&self, 2, later, more, NULL);
    change(&self, 0, NULL, NULL);
    CHECK(facts_of(self.table).shape[0] == 0);
    change(&self, 0, kept, rows(1, 7));
    expect_table(&self, 1, values + 4, momentum + 4, values + 4);
    end(&self);
}

static void save(const training *self, umbo_status (*act)(umbo_checkpoint *, const char *), umbo_status expected) {
    umbo_checkpoint *checkpoint = NULL;
    CHECK_OK(umbo_checkpoint_create(self->strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, "table", self->table));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", self->optimizer));
    CHECK_STATUS(act(checkpoint, "rows.safetensors"), expected);
    umbo_checkpoint_release(checkpoint);
}

static umbo_status write_file(umbo_checkpoint *checkpoint, const char *path) {
    return umbo_checkpoint_save(checkpoint, path);
}

static umbo_status read_file(umbo_checkpoint *checkpoint, const char *path) {
    return umbo_checkpoint_restore(checkpoint, path);
}

/* A program that made the same change restores; one with other rows is told so. */
static void saved(umbo_strategy *strategy) {
    const float values[8] = {99, 99, 99, 99, 99, 99, 7, 8}, momentum[8] = {1, 2, 3, 4, 5, 6, 0, 0};
    training self = begin(strategy, UMBO_AVERAGE_NONE), other = begin(strategy, UMBO_AVERAGE_NONE);
    step(&self);
    change(&self, 3, NULL, rows(1, 7));
    save(&self, write_file, UMBO_OK);
    save(&other, read_file, UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("table");
    change(&other, 3, NULL, rows(1, 0));
    save(&other, read_file, UMBO_OK);
    expect_table(&other, 4, values, momentum, NULL);
    step(&self), step(&other);
    end(&other), end(&self);
}

/* A checkpoint that has the table before: it neither saves nor loads until the changed one has taken its name. */
static void same_checkpoint(umbo_strategy *strategy) {
    const float values[8] = {99, 99, 99, 99, 99, 99, 7, 8}, momentum[8] = {1, 2, 3, 4, 5, 6, 0, 0};
    training self = begin(strategy, UMBO_AVERAGE_NONE);
    umbo_checkpoint *checkpoint = NULL;
    umbo_gradients *before = NULL;
    umbo_variable *table = NULL;
    step(&self);
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, "words", self.table));
    CHECK_OK(umbo_checkpoint_add_gradients(checkpoint, "gradients", self.gradients));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", self.optimizer));
    CHECK_OK(umbo_checkpoint_save(checkpoint, "rows.safetensors"));
    CHECK_OK(umbo_gradients_retain(self.gradients, &before));
    CHECK_OK(umbo_variable_retain(self.table, &table));
    change(&self, 3, NULL, rows(1, 7));
    CHECK_STATUS(umbo_checkpoint_save(checkpoint, "rows.safetensors"), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("add it to checkpoints by the same name");
    CHECK_STATUS(umbo_checkpoint_save_weights(checkpoint, "rows.safetensors", NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_checkpoint_restore(checkpoint, "rows.safetensors"), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_checkpoint_load_weights(checkpoint, "rows.safetensors", NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_checkpoint_add_variable(checkpoint, "gradients", self.table), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, "words", self.table));
    CHECK_OK(umbo_checkpoint_add_gradients(checkpoint, "gradients", self.gradients));
    CHECK_STATUS(umbo_checkpoint_add_variable(checkpoint, "words", self.table), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_checkpoint_save(checkpoint, "rows.safetensors"));
    step(&self);
    CHECK_OK(umbo_checkpoint_restore(checkpoint, "rows.safetensors"));
    expect_table(&self, 4, values, momentum, NULL);
    umbo_checkpoint_release(checkpoint);
    umbo_gradients_release(before);
    umbo_variable_release(table);
    end(&self);
}

/* Another optimizer that has updated the table before does not update it behind the changed one's back. */
static void another_optimizer(umbo_strategy *strategy) {
    training self = begin(strategy, UMBO_AVERAGE_NONE);
    umbo_gradients *before = self.gradients;
    umbo_variable *const table = self.table;
    umbo_variable *changed = NULL;
    umbo_optimizer *other = NULL;
    float values[6], later[6];
    CHECK_OK(umbo_optimizer_create_adam(strategy, NULL, &other));
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(other, before, NULL, NULL));
    CHECK_OK(umbo_optimizer_change_rows(self.optimizer, table, 3, NULL, NULL, &changed));
    CHECK_OK(umbo_variable_download(table, values, sizeof(values)));
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(other, before, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("a change of rows has put another");
    CHECK_OK(umbo_variable_download(table, later, sizeof(later)));
    CHECK(memcmp(values, later, sizeof(values)) == 0);
    umbo_variable_release(changed);
    umbo_optimizer_release(other);
    end(&self);
}

static umbo_status in_run(umbo_replica_context *context, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_variable *changed = NULL;
    (void)context, (void)args, (void)result;
    CHECK_STATUS(umbo_optimizer_change_rows(self->optimizer, self->table, 1, NULL, NULL, &changed),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(changed == NULL);
    return UMBO_OK;
}

#define REFUSED(status, count, rows, appended, words)                                                     \
    do {                                                                                                  \
        CHECK_STATUS(umbo_optimizer_change_rows(self.optimizer, self.table, count, rows, appended, &changed), status); \
        CHECK_MESSAGE(words);                                                                             \
        CHECK(changed == NULL);                                                                           \
    } while (0)

static void refused(umbo_strategy *strategy) {
    const int64_t beyond[2] = {0, 3}, negative[1] = {-1}, twice[3] = {1, 0, 1};
    const float values[6] = {97.5F, 96, 94.5F, 93, 91.5F, 90}, momentum[6] = {1.5F, 3, 4.5F, 6, 7.5F, 9};
    training self = begin(strategy, UMBO_AVERAGE_NONE);
    umbo_variable *changed = NULL, *table;
    umbo_tensor *flat = make_float(1);
    step(&self);
    REFUSED(UMBO_STATUS_OUT_OF_RANGE, 2, beyond, NULL, "kept_rows[1]: 3");
    REFUSED(UMBO_STATUS_OUT_OF_RANGE, 1, negative, NULL, "kept_rows[0]: -1");
    REFUSED(UMBO_STATUS_INVALID_ARGUMENT, 3, twice, NULL, "kept_rows[2]: 1 a second time");
    REFUSED(UMBO_STATUS_INVALID_ARGUMENT, 4, NULL, NULL, "kept_count: 4");
    REFUSED(UMBO_STATUS_INVALID_ARGUMENT, -1, NULL, NULL, "kept_count");
    REFUSED(UMBO_STATUS_INVALID_ARGUMENT, 1, NULL, flat, "appended: float32");
    CHECK_OK(umbo_strategy_run(strategy, in_run, NULL, &self, NULL, NULL));
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    REFUSED(UMBO_STATUS_FAILED_PRECONDITION, 3, NULL, NULL, "what the last run submitted");
    CHECK_OK(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL));
    expect_table(&self, 3, values, momentum, NULL);
    CHECK_OK(umbo_optimizer_change_rows(self.optimizer, self.table, 3, NULL, NULL, &changed));
    table = changed;
    changed = NULL;
    REFUSED(UMBO_STATUS_FAILED_PRECONDITION, 3, NULL, NULL, "a change of rows has put another");
    CHECK_OK(umbo_strategy_run(strategy, give, NULL, &self, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("table");
    umbo_variable_release(table);
    umbo_tensor_release(flat);
    end(&self);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    moves(strategy);
    saved(strategy);
    same_checkpoint(strategy);
    another_optimizer(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
