/* Tensors in files of their own. */
#include "check.h"

static const char npy[] = "test_tensor_files.npy", npz[] = "test_tensor_files.npz";

#define CHECK_FAILS(call, status, words) \
    do {                                 \
        CHECK_STATUS(call, status);      \
        CHECK_MESSAGE(words);            \
    } while (0)

/* Names of files are bytes, on Windows UTF-8. A function that opens files gets them as they were given. */
#ifdef _WIN32
static const char odd[] = "test_tensor_files \xe6\xa8\xa1\xc3\xa9.npy";
static const char odd_folder[] = "test_tensor_files folder \xc3\xa9";
#else
static const char odd[] = "test_tensor_files \xff\xe9.npy", odd_folder[] = "test_tensor_files folder \xe9";
#endif

static umbo_status open_odd(const char *path, int64_t index, void *seen, umbo_dataset **dataset) {
    *(int *)seen += strcmp(path, odd) == 0 && index == 0;
    return umbo_dataset_from_npy_file(path, dataset);
}

static void check_odd_names(const umbo_tensor *tensor) {
    const char *const paths[1] = {odd};
    umbo_tensor *loaded;
    umbo_dataset *dataset;
    umbo_strategy *strategy;
    umbo_checkpoint *checkpoint;
    umbo_checkpoint_manager *manager;
    char path[4096];
    size_t length;
    int seen = 0;
    CHECK_OK(umbo_tensor_save(tensor, odd));
    CHECK_OK(umbo_tensor_load(odd, NULL, &loaded));
    umbo_tensor_release(loaded);
    CHECK_OK(umbo_dataset_from_files(1, paths, open_odd, &seen, NULL, NULL, &dataset));
    CHECK(seen >= 1);
    umbo_dataset_release(dataset);
    CHECK_FAILS(umbo_dataset_from_idx_files(1, NULL, paths, &dataset), UMBO_STATUS_INVALID_ARGUMENT,
                "not an IDX file");
    CHECK_OK(umbo_trace_start(odd, NULL));
    CHECK_OK(umbo_trace_stop(NULL, NULL));
    CHECK_OK(umbo_strategy_create(NULL, &strategy));
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_save(checkpoint, odd));
    CHECK_OK(umbo_checkpoint_restore(checkpoint, odd));
    CHECK_OK(umbo_checkpoint_save_weights(checkpoint, odd, NULL));
    CHECK_OK(umbo_checkpoint_load_weights(checkpoint, odd, NULL));
    /* What an earlier run of this test that failed may have left. */
    snprintf(path, sizeof(path), "%s/step-000000000001.safetensors", odd_folder);
    remove(path);
    CHECK_OK(umbo_checkpoint_manager_create(checkpoint, odd_folder, NULL, &manager));
    CHECK_OK(umbo_checkpoint_manager_save(manager, 1, NULL, 1, NULL));
    CHECK_OK(umbo_checkpoint_manager_path(manager, 1, path, sizeof(path), &length));
    CHECK(length == strlen(path) && strstr(path, odd_folder) != NULL);
    umbo_checkpoint_manager_release(manager);
    umbo_checkpoint_release(checkpoint);
    umbo_strategy_release(strategy);
    CHECK(remove(path) == 0 && remove(odd_folder) == 0 && remove(odd) == 0);
}

int main(void) {
    const float numbers[3] = {1.5f, -2, 3};
    const char *const names[2] = {"first", "second"};
    umbo_tensor *first = make_floats(3, numbers), *second = make_floats(1, numbers), *loaded = NULL;
    umbo_tensor *tensors[2];
    float read[3];
    tensors[0] = first;
    tensors[1] = second;
    CHECK_OK(umbo_tensor_save(first, npy));
    CHECK_OK(umbo_tensor_load(npy, NULL, &loaded));
    CHECK_OK(umbo_tensor_download(loaded, read, sizeof(read)));
    CHECK(memcmp(read, numbers, sizeof(read)) == 0);
    umbo_tensor_release(loaded);
    CHECK_OK(umbo_tensor_save_all(2, names, tensors, npz));
    CHECK_OK(umbo_tensor_load(npz, "second", &loaded));
    CHECK_OK(umbo_tensor_download(loaded, read, sizeof(read[0])));
    CHECK(read[0] == 1.5f);
    umbo_tensor_release(loaded);
    CHECK_FAILS(umbo_tensor_load(npz, "third", &loaded), UMBO_STATUS_NOT_FOUND, "first, second");
    CHECK_FAILS(umbo_tensor_load(npz, NULL, &loaded), UMBO_STATUS_INVALID_ARGUMENT, "not a .npy file");
    CHECK_FAILS(umbo_tensor_load("no such file", NULL, &loaded), UMBO_STATUS_NOT_FOUND, "no such file");
    CHECK_FAILS(umbo_tensor_save(first, "no/such/folder"), UMBO_STATUS_NOT_FOUND, "no/such");
    CHECK_FAILS(umbo_tensor_save_all(0, names, tensors, npz), UMBO_STATUS_INVALID_ARGUMENT, "count");
    check_odd_names(first);
    umbo_tensor_release(second);
    umbo_tensor_release(first);
    CHECK(remove(npy) == 0 && remove(npz) == 0);
    return finish();
}
