/* Places in the data: saved as text, restored into another iterator. */
#include "check.h"

enum { ROWS = 23, ROOM = 4096 };

static umbo_dataset *numbers(int64_t count) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(0, count, 1, &dataset));
    return dataset;
}

static umbo_dataset *shuffled(uint64_t seed, int64_t batch) {
    umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_dataset *dataset = numbers(ROWS);
    options.seed = seed;
    options.buffer_capacity = 7;
    CHECK_OK(umbo_dataset_shuffle(&dataset, &options));
    CHECK_OK(umbo_dataset_repeat(&dataset, 2));
    CHECK_OK(umbo_dataset_batch(&dataset, batch, 0));
    return dataset;
}

static umbo_iterator *over(umbo_strategy *strategy, umbo_dataset *dataset) {
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    options.prefetch_count = 2;
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, dataset, &options, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(dataset);
    return iterator;
}

/* The numbers of the next element in words; 0 at the end. */
static int next_text(umbo_iterator *iterator, char *text) {
    umbo_value *element = NULL;
    size_t length = 0;
    CHECK_OK(umbo_iterator_next(iterator, &element));
    if (element == NULL) return 0;
    CHECK_OK(umbo_value_text(element, text, ROOM, &length));
    umbo_value_release(element);
    return 1;
}

static void same_rest(umbo_iterator *one, umbo_iterator *other) {
    static char text[ROOM], expected[ROOM];
    int more;
    do {
        more = next_text(one, expected);
        CHECK(next_text(other, text) == more);
        if (more) CHECK(strcmp(text, expected) == 0);
    } while (more);
}

static void save(umbo_iterator *iterator, char *text) {
    size_t length = 0;
    CHECK_OK(umbo_iterator_save_position(iterator, text, ROOM, &length));
    CHECK(strlen(text) == length);
}

/* Another process would make the dataset anew, perhaps with another seed. */
static void batches_go_on_where_they_were(void) {
    static char text[ROOM], position[ROOM];
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    int taken, index;
    options.cpu_replicas = 2;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    for (taken = 0; taken <= 12; taken++) {
        umbo_iterator *iterator = over(strategy, shuffled(1, 4));
        umbo_iterator *other = over(strategy, shuffled(2, 4));
        for (index = 0; index < taken; index++) CHECK(next_text(iterator, text));
        save(iterator, position);
        CHECK(next_text(other, text));
        CHECK_OK(umbo_iterator_restore_position(other, position));
        same_rest(iterator, other);
        /* Also in the pass after this one. */
        CHECK_OK(umbo_iterator_reset(iterator));
        CHECK_OK(umbo_iterator_reset(other));
        same_rest(iterator, other);
        umbo_iterator_release(iterator);
        umbo_iterator_release(other);
    }
    umbo_strategy_release(strategy);
}

static void what_does_not_fit_is_refused(void) {
    static char position[ROOM], text[ROOM];
    umbo_dataset *dataset = shuffled(1, 4), *another = shuffled(1, 5);
    umbo_iterator *iterator = NULL, *other = NULL;
    size_t length = 0, expected;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_from_dataset(another, &other));
    CHECK(next_text(iterator, text));
    CHECK(umbo_iterator_save_position(iterator, NULL, 0, &expected) == UMBO_STATUS_OUT_OF_RANGE);
    CHECK(umbo_iterator_save_position(iterator, position, expected, &length) ==
          UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length == expected);
    CHECK_OK(umbo_iterator_save_position(iterator, position, expected + 1, &length));
    CHECK(umbo_iterator_restore_position(other, position) == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), "'batch of 4'") != NULL);
    CHECK(strstr(umbo_last_error_message(), "'batch of 5'") != NULL);
    CHECK(umbo_iterator_restore_position(iterator, "{}") == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(umbo_iterator_restore_position(iterator, NULL) == UMBO_STATUS_INVALID_ARGUMENT);
    position[length / 2] = position[length / 2] == '1' ? '2' : '1';
    CHECK(umbo_iterator_restore_position(iterator, position) == UMBO_STATUS_INVALID_ARGUMENT);
    /* The iterators are where they were. */
    CHECK_OK(umbo_iterator_reset(other));
    CHECK(next_text(other, text) && next_text(iterator, text));
    umbo_iterator_release(iterator);
    umbo_iterator_release(other);
    umbo_dataset_release(dataset);
    umbo_dataset_release(another);
}

struct source {
    int begun, reset, made, fails;
};

struct pass {
    int64_t round, next;
};

static umbo_status begin(void *user_data, void **pass) {
    ((struct source *)user_data)->begun++;
    *pass = calloc(1, sizeof(struct pass));
    return *pass != NULL ? UMBO_OK : UMBO_STATUS_RESOURCE_EXHAUSTED;
}

static umbo_status next(void *state, void *user_data, umbo_value **element) {
    struct pass *const pass = (struct pass *)state;
    struct source *const source = (struct source *)user_data;
    int64_t number;
    umbo_tensor *tensor = NULL;
    if (pass->next == 5) return UMBO_OK;
    if (source->fails) {
        return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "the source is away", NULL, NULL);
    }
    source->made++;
    number = 100 * pass->round + pass->next++;
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_INT64, 0, NULL, &number, NULL, &tensor));
    *element = into_value(tensor);
    return UMBO_OK;
}

static umbo_status reset(void *state, void *user_data) {
    struct pass *const pass = (struct pass *)state;
    ((struct source *)user_data)->reset++;
    pass->round++;
    pass->next = 0;
    return UMBO_OK;
}

static void end(void *state, void *user_data) {
    (void)user_data;
    free(state);
}

static void generators_are_replayed(void) {
    static char text[ROOM], position[ROOM];
    struct source source = {0, 0, 0, 0};
    umbo_generator generator = UMBO_GENERATOR_INIT;
    umbo_element_spec *spec = NULL;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL, *other = NULL;
    generator.begin = begin;
    generator.next = next;
    generator.reset = reset;
    generator.end = end;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, &source, NULL, &dataset));
    umbo_element_spec_release(spec);
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &other));
    CHECK(next_text(iterator, text));
    CHECK_OK(umbo_iterator_reset(iterator));
    CHECK_OK(umbo_iterator_reset(iterator));
    CHECK(next_text(iterator, text) && next_text(iterator, text) && next_text(iterator, text));
    save(iterator, position);

    memset(&source, 0, sizeof(source));
    source.fails = 1;
    CHECK(umbo_iterator_restore_position(other, position) == UMBO_STATUS_UNAVAILABLE);
    CHECK(strstr(umbo_last_error_message(), "the source is away") != NULL);
    memset(&source, 0, sizeof(source));
    CHECK_OK(umbo_iterator_restore_position(other, position));
    CHECK(source.begun == 1 && source.reset == 2 && source.made == 3);
    same_rest(iterator, other);
    umbo_iterator_release(iterator);
    umbo_iterator_release(other);
    umbo_dataset_release(dataset);
}

int main(void) {
    batches_go_on_where_they_were();
    what_does_not_fit_is_refused();
    generators_are_replayed();
    return 0;
}
