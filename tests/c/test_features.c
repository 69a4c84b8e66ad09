/* Optional parts of the library: what it says of them is what their functions do. The test holds for
 * every build, also for one without any of the parts. */
#include "check.h"

/* Whether the library has the part; umbo_build_info() lists it then. */
static int has(const char *name, const char *quoted) {
    int32_t result = -1;
    CHECK_OK(umbo_build_has_feature(name, &result));
    CHECK(result == 0 || result == 1);
    CHECK((strstr(umbo_build_info(), quoted) != NULL) == result);
    return result;
}

static umbo_status all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                              void *user_data, void *receive) {
    (void)user_data;
    CHECK(send_bytes[0] == receive_bytes[0]);
    if (send != NULL) memcpy(receive, send, send_bytes[0]);
    return UMBO_OK;
}

static umbo_status all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    (void)user_data;
    if (bytes[0] > 0) memcpy(receive, send, bytes[0]);
    return UMBO_OK;
}

static void aborted(const char *message, void *user_data) {
    (void)user_data;
    (void)message;
}

static void check_mpi(void) {
    umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
    umbo_communicator *communicator = NULL;
    /* An option that is refused before a library is looked for. */
    options.max_message_bytes = 0;
    if (has("mpi", "\"mpi\"")) {
        CHECK_STATUS(umbo_communicator_create_mpi(NULL, &options, &communicator),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("max_message_bytes");
    } else {
        CHECK_STATUS(umbo_communicator_create_mpi(NULL, &options, &communicator),
                     UMBO_STATUS_UNIMPLEMENTED);
        CHECK_MESSAGE("built without the feature 'mpi'");
    }
}

static void check_nccl(void) {
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    umbo_communicator *base, *communicator = NULL;
    functions.all_to_all = all_to_all;
    functions.all_gather = all_gather;
    functions.abort = aborted;
    CHECK_OK(umbo_communicator_create(&functions, NULL, NULL, &base));
    /* A device that is refused before a library is looked for. */
    if (has("nccl", "\"nccl\"")) {
        CHECK_STATUS(umbo_communicator_create_nccl(base, "CPU:0", NULL, &communicator),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("NCCL moves memory of GPUs");
    } else {
        CHECK_STATUS(umbo_communicator_create_nccl(base, "CPU:0", NULL, &communicator),
                     UMBO_STATUS_UNIMPLEMENTED);
        CHECK_MESSAGE("built without the feature 'nccl'");
    }
    umbo_communicator_release(base);
}

static void check_files(void) {
    const int there = has("files", "\"files\"");
    const char *const paths[1] = {"test_features.missing"};
    const umbo_status expected = there ? UMBO_STATUS_NOT_FOUND : UMBO_STATUS_UNIMPLEMENTED;
    const float number = 1;
    umbo_dataset *dataset;
    umbo_tensor *tensor, *loaded;
    CHECK_STATUS(umbo_dataset_from_npy_file(paths[0], &dataset), expected);
    CHECK_STATUS(umbo_dataset_from_npz_file(paths[0], 0, NULL, &dataset), expected);
    CHECK_STATUS(umbo_dataset_from_idx_files(1, NULL, paths, &dataset), expected);
    CHECK_STATUS(umbo_tensor_load(paths[0], NULL, &loaded), expected);
    CHECK_STATUS(umbo_tensor_load(paths[0], "x", &loaded), expected);
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, NULL, &tensor));
    CHECK_STATUS(umbo_tensor_save(tensor, "no folder/x.npy"), expected);
    if (!there) CHECK_MESSAGE("built without the feature 'files'");
    umbo_tensor_release(tensor);
}

/* A call that succeeds where the part is there. */
static void check_part(const char *name, const char *quoted, umbo_status status) {
    char words[64];
    if (has(name, quoted)) {
        CHECK_STATUS(status, UMBO_OK);
        return;
    }
    CHECK_STATUS(status, UMBO_STATUS_UNIMPLEMENTED);
    snprintf(words, sizeof(words), "built without the feature '%s'", name);
    CHECK(strstr(umbo_last_error_message(), words) != NULL);
}

static void check_checks(umbo_strategy *strategy) {
    const int64_t shape[1] = {4};
    const float numbers[4] = {0};
    umbo_equivalence *equivalence = NULL;
    umbo_value *batch;
    umbo_tensor *tensor;
    CHECK_OK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, numbers, NULL, &tensor));
    CHECK_OK(umbo_value_from_tensor(tensor, &batch));
    check_part("checks", "\"checks\"",
               umbo_strategy_check_equivalence(strategy, NULL, nothing, batch, NULL, NULL, &equivalence));
    umbo_equivalence_release(equivalence);
    umbo_value_release(batch);
    umbo_tensor_release(tensor);
}

static void check_trace(void) {
    if (has("trace", "\"trace\"")) {
        CHECK_STATUS(umbo_trace_start("no folder/trace.json", NULL), UMBO_STATUS_NOT_FOUND);
    } else {
        CHECK_STATUS(umbo_trace_start("no folder/trace.json", NULL), UMBO_STATUS_UNIMPLEMENTED);
        CHECK_MESSAGE("built without the feature 'trace'");
    }
}

/* What is made of a strategy. Gradient descent, momentum, Adam and AdamW are always there. */
static void check_parts(void) {
    umbo_strategy *strategy, *standard = NULL;
    umbo_checkpoint *checkpoint = NULL;
    umbo_optimizer *plain, *adamw, *lion = NULL;
    CHECK_OK(umbo_strategy_create(NULL, &strategy));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &plain));
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &adamw));
    check_part("rules-extra", "\"rules-extra\"", umbo_optimizer_create_lion(strategy, NULL, &lion));
    check_part("checkpoints", "\"checkpoints\"", umbo_checkpoint_create(strategy, &checkpoint));
    check_part("tensorflow", "\"tensorflow\"", umbo_strategy_default(&standard));
    check_checks(strategy);
    umbo_strategy_release(standard);
    umbo_checkpoint_release(checkpoint);
    umbo_optimizer_release(lion);
    umbo_optimizer_release(adamw);
    umbo_optimizer_release(plain);
    umbo_strategy_release(strategy);
}

int main(void) {
    CHECK(!has("no such part", "\"no such part\""));
    check_mpi();
    check_nccl();
    check_files();
    check_trace();
    check_parts();
    /* A strategy of several ranks needs another process; loops need a processor that has more than the least. */
    has("ranks", "\"ranks\"");
    has("vectors", "\"vectors\"");
    return finish();
}
