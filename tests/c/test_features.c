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

int main(void) {
    CHECK(!has("no such part", "\"no such part\""));
    check_mpi();
    check_nccl();
    check_files();
    return finish();
}
