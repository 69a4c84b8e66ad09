/* Datasets of files, which a function of the program opens. */
#include "check.h"

enum { FILES = 4, FILE_ROWS = 3 };

struct files {
    int opened[FILES];
    int destroyed;
    int64_t missing;
    int stores_none;
};

static const char *const paths[FILES] = {"a", "b", "c", "d"};

/* The numbers 10 i, 10 i + 1, ... of file i. */
static umbo_status open_file(const char *path, int64_t number, void *user_data, umbo_dataset **dataset) {
    struct files *files = (struct files *)user_data;
    CHECK(number >= 0 && number < FILES && strcmp(path, paths[number]) == 0 && *dataset == NULL);
    files->opened[number]++;
    if (number == files->missing) return umbo_set_last_error(UMBO_STATUS_NOT_FOUND, "gone", NULL, NULL);
    if (files->stores_none) return UMBO_OK;
    return umbo_dataset_from_range(10 * number, 10 * number + FILE_ROWS, 1, dataset);
}

static void destroy(void *user_data) { ((struct files *)user_data)->destroyed++; }

static struct files of_files(void) {
    struct files files;
    memset(&files, 0, sizeof(files));
    files.missing = -1;
    return files;
}

static int64_t number_of(umbo_value *element) {
    umbo_view view;
    int64_t number;
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.dtype == UMBO_DTYPE_INT64 && view.ndim == 0);
    number = *(const int64_t *)view.data;
    umbo_value_release(element);
    return number;
}

/* All that is left, of which so many calls fail. */
static int drain(umbo_iterator *iterator, int64_t *into, int room, int failures) {
    int count = 0;
    for (;;) {
        umbo_value *element = NULL;
        umbo_status status = umbo_iterator_next(iterator, &element);
        if (status != UMBO_OK) {
            CHECK(status == UMBO_STATUS_NOT_FOUND && failures-- > 0);
            CHECK_MESSAGE("gone");
            continue;
        }
        if (element == NULL) break;
        CHECK(count < room);
        into[count++] = number_of(element);
    }
    CHECK(failures == 0);
    return count;
}

static void orders(void) {
    static const int64_t by_turns[] = {0, 1, 10, 11, 2, 20, 21, 12, 30, 31, 22, 32};
    struct files files = of_files();
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_files_options options = UMBO_FILES_OPTIONS_INIT;
    int64_t seen[FILES * FILE_ROWS], other[FILES * FILE_ROWS], count = 0;
    int index;
    CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, destroy, NULL, &dataset));
    CHECK(files.opened[0] == 1 && files.opened[1] == 0);
    CHECK_OK(umbo_dataset_cardinality(dataset, &count));
    CHECK(count == -2);
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    CHECK(drain(iterator, seen, COUNT_OF(seen), 0) == COUNT_OF(seen));
    for (index = 0; index < COUNT_OF(seen); index++)
        CHECK(seen[index] == index / FILE_ROWS * 10 + index % FILE_ROWS);
    CHECK_OK(umbo_iterator_reset(iterator));
    CHECK(drain(iterator, seen, COUNT_OF(seen), 0) == COUNT_OF(seen) && files.opened[3] == 2);
    umbo_iterator_release(iterator);
    CHECK(files.destroyed == 1);

    options.open_file_count = 2;
    options.consecutive_count = 2;
    dataset = NULL;
    CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, NULL, &options, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    CHECK(drain(iterator, seen, COUNT_OF(seen), 0) == COUNT_OF(seen));
    CHECK(memcmp(seen, by_turns, sizeof(seen)) == 0);
    umbo_iterator_release(iterator);

    options.shuffle_files = 1;
    options.seed = 3;
    dataset = NULL;
    CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, NULL, &options, &dataset));
    for (index = 0; index < 2; index++) {
        CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
        CHECK(drain(iterator, index == 0 ? seen : other, COUNT_OF(seen), 0) == COUNT_OF(seen));
        umbo_iterator_release(iterator);
    }
    umbo_dataset_release(dataset);
    CHECK(memcmp(seen, other, sizeof(seen)) != 0);
}

static void failures(void) {
    struct files files = of_files();
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_element_spec *spec = NULL;
    umbo_files_options options = UMBO_FILES_OPTIONS_INIT;
    int64_t seen[FILES * FILE_ROWS];
    umbo_value *element = NULL;
    files.missing = 0;
    CHECK_STATUS(umbo_dataset_from_files(FILES, paths, open_file, &files, destroy, NULL, &dataset),
                 UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("gone");
    CHECK(dataset == NULL && files.destroyed == 1 && files.opened[0] == 1);
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    options.element_spec = spec;
    for (files.missing = 0; files.missing < FILES; files.missing++) {
        CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, NULL, &options, &dataset));
        CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
        umbo_dataset_release(dataset);
        dataset = NULL;
        CHECK(drain(iterator, seen, COUNT_OF(seen), 1) == COUNT_OF(seen) - FILE_ROWS);
        umbo_iterator_release(iterator);
    }
    files = of_files();
    files.stores_none = 1;
    CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, destroy, &options, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    dataset = NULL;
    CHECK_STATUS(umbo_iterator_next(iterator, &element), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("stored none");
    umbo_iterator_release(iterator);
    CHECK(files.destroyed == 1);
    umbo_element_spec_release(spec);
}

static void refusals(void) {
    static const struct {
        int64_t count, open_file_count, consecutive_count;
        int32_t shuffle_files;
        const char *named;
    } wrong[] = {{0, 1, 1, 0, "paths"},
                 {-1, 1, 1, 0, "paths"},
                 {1, 0, 1, 0, "open_file_count"},
                 {1, 5000, 1, 0, "open_file_count"},
                 {1, 1, 0, 0, "consecutive_count"},
                 {1, 1, 1, 2, "shuffle_files"}};
    struct files files = of_files();
    umbo_dataset *dataset = NULL;
    int index;
    for (index = 0; index < COUNT_OF(wrong); index++) {
        umbo_files_options options = UMBO_FILES_OPTIONS_INIT;
        options.open_file_count = wrong[index].open_file_count;
        options.consecutive_count = wrong[index].consecutive_count;
        options.shuffle_files = wrong[index].shuffle_files;
        CHECK_STATUS(umbo_dataset_from_files(wrong[index].count, paths, open_file, &files, destroy, &options,
                                             &dataset),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK(strstr(umbo_last_error_message(), wrong[index].named) != NULL);
        CHECK(dataset == NULL && files.destroyed == index + 1);
    }
}

/* In one process all files are read, and a pipeline that could never be dealt out is refused. */
static void one_process(void) {
    struct files files = of_files();
    umbo_strategy *strategy = make_strategy(2);
    umbo_dataset *dataset = NULL, *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    options.sharding = UMBO_SHARDING_FILE;
    CHECK_OK(umbo_dataset_from_files(FILES, paths, open_file, &files, NULL, NULL, &dataset));
    CHECK_OK(umbo_dataset_retain(dataset, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed));
    umbo_distributed_dataset_release(distributed);
    CHECK_OK(umbo_dataset_take(&batches, 1));
    CHECK_STATUS(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("take");
    options.sharding = UMBO_SHARDING_AUTO;
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed));
    umbo_distributed_dataset_release(distributed);
    options.sharding = (umbo_sharding)4;
    CHECK_STATUS(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("UMBO_SHARDING_AUTO");
    umbo_dataset_release(batches);
    umbo_dataset_release(dataset);
    umbo_strategy_release(strategy);
}

int main(void) {
    orders();
    failures();
    refusals();
    one_process();
    return finish();
}
