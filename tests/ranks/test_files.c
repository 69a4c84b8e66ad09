/* Files that are dealt out to processes: each example comes once, each file is opened by one rank alone, and
 * all ranks make as many steps, whatever the number of files, ranks and replicas. */
#include "ranks.h"

#include "../c/check.h"

enum { MOST_FILES = 12, MOST_ROWS = 16, MOST_SIZE = 4, BATCH = 8, EPOCHS = 2 };

struct seen {
    int64_t rows[MOST_FILES]; /* how many each file has; set before the ranks run */
    int files;
    int64_t replicas;
    umbo_sharding sharding;
    /* How often each rank has opened a file, and seen a row of it. */
    int opened[MOST_SIZE][MOST_FILES];
    int times[MOST_SIZE][MOST_FILES][MOST_ROWS];
    int64_t steps[MOST_SIZE];
};

struct own {
    struct seen *seen;
    int rank;
};

static umbo_status open_file(const char *path, int64_t number, void *user_data, umbo_dataset **dataset) {
    const struct own *own = (const struct own *)user_data;
    (void)path;
    own->seen->opened[own->rank][number]++;
    return umbo_dataset_from_range(100 * number, 100 * number + own->seen->rows[number], 1, dataset);
}

static void note(const struct own *own, const umbo_view *view) {
    int64_t row;
    for (row = 0; row < view->shape[0]; row++) {
        const int64_t number = ((const int64_t *)view->data)[row];
        /* Replicas write for a row that one of them alone has. */
        __atomic_fetch_add(&own->seen->times[own->rank][number / 100][number % 100], 1, __ATOMIC_SEQ_CST);
    }
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    umbo_view view;
    (void)context, (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &view));
    note((const struct own *)user_data, &view);
    return UMBO_OK;
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    static const char *const paths[MOST_FILES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"};
    struct own own;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_files_options reading = UMBO_FILES_OPTIONS_INIT;
    umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_distribute_options how = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_element_spec *spec = NULL;
    umbo_dataset *dataset = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    umbo_status status;
    int epoch;
    own.seen = (struct seen *)argument;
    own.rank = rank;
    options.cpu_replicas = own.seen->replicas;
    options.communicator = communicator;
    options.bind_threads = 0;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    reading.element_spec = spec;
    reading.open_file_count = 2;
    reading.shuffle_files = 1;
    CHECK_OK(umbo_dataset_from_files(own.seen->files, paths, open_file, &own, NULL, &reading, &dataset));
    umbo_element_spec_release(spec);
    shuffle.buffer_capacity = 5;
    CHECK_OK(umbo_dataset_shuffle(&dataset, &shuffle));
    CHECK_OK(umbo_dataset_batch(&dataset, BATCH, 0));
    CHECK_OK(umbo_dataset_prefetch(&dataset, 2));
    how.sharding = own.seen->sharding;
    status = umbo_strategy_distribute_dataset(strategy, dataset, &how, &distributed);
    umbo_dataset_release(dataset);
    if (status == UMBO_OK) {
        CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
        umbo_distributed_dataset_release(distributed);
        for (epoch = 0; epoch < EPOCHS; epoch++) {
            for (;;) {
                umbo_value *element = NULL;
                CHECK_OK(umbo_iterator_next(iterator, &element));
                if (element == NULL) break;
                own.seen->steps[rank]++;
                CHECK_OK(umbo_strategy_run(strategy, step, &own, element, NULL, NULL));
                umbo_value_release(element);
            }
            /* Behind the last one nothing is to be made ahead. */
            if (epoch + 1 < EPOCHS) CHECK_OK(umbo_iterator_reset(iterator));
        }
        umbo_iterator_release(iterator);
    } else {
        CHECK(status == UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("fewer files");
    }
    umbo_strategy_release(strategy);
    return status == UMBO_OK ? 0 : 2;
}

int main(void) {
    struct seen *seen = (struct seen *)ranks_shared(sizeof(struct seen));
    int size, files, sharding;
    for (size = 2; size <= MOST_SIZE; size++) {
        for (files = 1; files <= MOST_FILES; files += 1 + files / 3) {
            for (sharding = UMBO_SHARDING_FILE; sharding <= UMBO_SHARDING_AUTO; sharding++) {
                struct ranks_options options = {0};
                struct ranks_outcome outcome;
                const int dealt = files >= size;
                int rank, file, row;
                memset(seen, 0, sizeof(*seen));
                seen->files = files;
                seen->replicas = 1 + files % 2;
                seen->sharding = (umbo_sharding)sharding;
                for (file = 0; file < files; file++) seen->rows[file] = (file * 7 + files) % (MOST_ROWS - 1);
                options.size = size;
                outcome = ranks_run(&options, on_rank, seen);
                CHECK(!outcome.hung);
                for (rank = 0; rank < size; rank++)
                    CHECK(outcome.code[rank] == (dealt || sharding == UMBO_SHARDING_AUTO ? 0 : 2));
                if (outcome.code[0] != 0) continue;
                for (rank = 0; rank < size; rank++) {
                    CHECK(seen->steps[rank] == seen->steps[0]);
                    for (file = 0; dealt && file < files; file++)
                        CHECK(seen->opened[rank][file] == (file % size == rank ? EPOCHS : 0));
                }
                for (file = 0; file < files; file++) {
                    for (row = 0; row < MOST_ROWS; row++) {
                        int times = 0;
                        for (rank = 0; rank < size; rank++) times += seen->times[rank][file][row];
                        CHECK(times == (row < seen->rows[file] ? EPOCHS : 0));
                    }
                }
            }
        }
    }
    return 0;
}
