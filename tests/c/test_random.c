/* Random numbers of callbacks: by seed, step and example, whatever the number of replicas. */
#include <umbo/io.h>

#include "check.h"

#define EXAMPLES 13
#define COUNT 5
#define STEPS 3

static const char file[] = "test_random.safetensors";

/* What all replicas have drawn in one step, by the number of the example. */
struct drawn {
    float mask[EXAMPLES][COUNT];
    double normal[EXAMPLES][COUNT];
    int64_t integers[EXAMPLES][COUNT];
};

static umbo_status draw(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    struct drawn *all = (struct drawn *)user_data;
    umbo_replica_context_info info = UMBO_REPLICA_CONTEXT_INFO_INIT;
    umbo_random_key key = UMBO_RANDOM_KEY_INIT;
    int64_t first, rows;
    (void)args, (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &info));
    UMBO_TRY(umbo_replica_context_random_key(ctx, 7, 1, &key));
    CHECK(key.seed == 7 && key.stream == 1 && key.step == info.step);
    CHECK(key.first_example == info.first_example);
    rows = info.local_example_count;
    /* A replica without examples draws nothing, and may point past the end. */
    first = rows > 0 ? info.first_example : 0;
    UMBO_TRY(umbo_random_bernoulli(&key, 0.5, 2, rows, COUNT, UMBO_DTYPE_FLOAT32, all->mask[first]));
    key.stream = 2;
    UMBO_TRY(umbo_random_normal(&key, rows, COUNT, UMBO_DTYPE_FLOAT64, all->normal[first]));
    key.stream = 3;
    return umbo_random_integers(&key, 1000, rows, COUNT, all->integers[first]);
}

static umbo_value *batch_for(umbo_strategy *strategy) {
    float numbers[EXAMPLES] = {0};
    umbo_value *batch = floats_value(EXAMPLES, numbers), *parts = NULL;
    CHECK_OK(umbo_strategy_split(strategy, batch, &parts));
    umbo_value_release(batch);
    return parts;
}

static void steps_of(umbo_strategy *strategy, int count, struct drawn *drawn) {
    umbo_value *batch = batch_for(strategy);
    int step;
    for (step = 0; step < count; step++) {
        CHECK_OK(umbo_strategy_run(strategy, draw, batch, &drawn[step], NULL, NULL));
    }
    umbo_value_release(batch);
}

/* The same bits on 1 to 8 replicas, some of which have no examples with a batch of 13. */
static void any_number_of_replicas(const struct drawn *expected) {
    int32_t replicas;
    for (replicas = 1; replicas <= 8; replicas++) {
        static struct drawn drawn[STEPS];
        umbo_strategy *strategy = make_strategy(replicas);
        memset(drawn, 0, sizeof(drawn));
        steps_of(strategy, STEPS, drawn);
        CHECK(memcmp(drawn, expected, sizeof(drawn)) == 0);
        umbo_strategy_release(strategy);
    }
}

/* A training that is resumed at a step draws what it would have drawn. */
static void resumed(const struct drawn *expected) {
    static struct drawn drawn[STEPS];
    umbo_strategy *first = make_strategy(2), *second = make_strategy(3);
    umbo_checkpoint *from = NULL, *to = NULL;
    steps_of(first, 1, drawn);
    CHECK_OK(umbo_checkpoint_create(first, &from));
    CHECK_OK(umbo_checkpoint_save(from, file));
    CHECK_OK(umbo_checkpoint_create(second, &to));
    CHECK_OK(umbo_checkpoint_restore(to, file));
    steps_of(second, STEPS - 1, drawn + 1);
    CHECK(memcmp(drawn, expected, sizeof(drawn)) == 0);
    umbo_checkpoint_release(to);
    umbo_checkpoint_release(from);
    umbo_strategy_release(second);
    umbo_strategy_release(first);
    remove(file);
}

/* A key by hand gives what that of the context gives, for one example too. */
static void by_hand(const struct drawn *expected) {
    double normal[COUNT];
    umbo_random_key key = UMBO_RANDOM_KEY_INIT;
    key.seed = 7;
    key.stream = 2;
    key.step = 2;
    key.first_example = 11;
    CHECK_OK(umbo_random_normal(&key, 1, COUNT, UMBO_DTYPE_FLOAT64, normal));
    CHECK(memcmp(normal, expected[1].normal[11], sizeof(normal)) == 0);
}

/* Each step has other numbers. */
static void steps_differ(const struct drawn *drawn) {
    int step;
    for (step = 1; step < STEPS; step++) {
        CHECK(memcmp(&drawn[step].mask, &drawn[step - 1].mask, sizeof(drawn->mask)) != 0);
        CHECK(memcmp(&drawn[step].normal, &drawn[step - 1].normal, sizeof(drawn->normal)) != 0);
    }
}

static umbo_status without_a_batch(umbo_replica_context *ctx, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    umbo_random_key key = UMBO_RANDOM_KEY_INIT;
    (void)args, (void)user_data, (void)result;
    return umbo_replica_context_random_key(ctx, 7, 0, &key);
}

/* Replicas that do not know where they are would all draw the same. */
static void unknown_positions(void) {
    umbo_strategy *strategy = make_strategy(2), *alone = make_strategy(1);
    CHECK_STATUS(umbo_strategy_run(strategy, without_a_batch, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("no per-replica value");
    CHECK_OK(umbo_strategy_run(alone, without_a_batch, NULL, NULL, NULL, NULL));
    umbo_strategy_release(alone);
    umbo_strategy_release(strategy);
}

static void refusals(void) {
    float numbers[4] = {9, 9, 9, 9};
    int64_t integers[1] = {9};
    umbo_random_key key = UMBO_RANDOM_KEY_INIT, negative = UMBO_RANDOM_KEY_INIT;
    const umbo_status invalid = UMBO_STATUS_INVALID_ARGUMENT;
    CHECK_STATUS(umbo_random_uniform(NULL, 1, 4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("key");
    CHECK_STATUS(umbo_random_uniform(&key, 1, 4, UMBO_DTYPE_INT32, numbers), invalid);
    CHECK_MESSAGE("float32 or float64");
    CHECK_STATUS(umbo_random_uniform(&key, -1, 4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("example_count");
    CHECK_STATUS(umbo_random_uniform(&key, 1, -4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("count");
    CHECK_STATUS(umbo_random_uniform(&key, INT64_MAX, 4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("no memory holds as many");
    CHECK_STATUS(umbo_random_normal(&key, 1, 4, UMBO_DTYPE_FLOAT32, NULL), invalid);
    CHECK_MESSAGE("numbers");
    CHECK_OK(umbo_random_normal(&key, 0, 4, UMBO_DTYPE_FLOAT32, NULL));
    CHECK_STATUS(umbo_random_bernoulli(&key, 1.5, 1, 1, 4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("probability");
    CHECK_STATUS(umbo_random_integers(&key, 0, 1, 1, integers), invalid);
    CHECK_MESSAGE("bound");
    negative.step = -1;
    CHECK_STATUS(umbo_random_uniform(&negative, 1, 4, UMBO_DTYPE_FLOAT32, numbers), invalid);
    CHECK_MESSAGE("key.step");
    CHECK(numbers[0] == 9 && integers[0] == 9);
}

int main(void) {
    static struct drawn expected[STEPS];
    umbo_strategy *strategy = make_strategy(1);
    steps_of(strategy, STEPS, expected);
    umbo_strategy_release(strategy);
    steps_differ(expected);
    any_number_of_replicas(expected);
    resumed(expected);
    by_hand(expected);
    unknown_positions();
    refusals();
    return finish();
}
