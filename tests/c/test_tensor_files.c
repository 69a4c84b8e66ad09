/* Tensors in files of their own. */
#include "check.h"

static const char npy[] = "test_tensor_files.npy", npz[] = "test_tensor_files.npz";

#define CHECK_FAILS(call, status, words) \
    do {                                 \
        CHECK_STATUS(call, status);      \
        CHECK_MESSAGE(words);            \
    } while (0)

int main(void) {
    const float numbers[3] = {1.5f, -2, 3};
    const char *const names[2] = {"first", "second"};
    umbo_tensor *first = make_floats(3, numbers), *second = make_floats(1, numbers), *loaded = NULL;
    const umbo_tensor *tensors[2];
    float read[3];
    tensors[0] = first;
    tensors[1] = second;
    CHECK_OK(umbo_tensor_save(first, npy));
    CHECK_OK(umbo_tensor_load(npy, NULL, &loaded));
    CHECK_OK(umbo_tensor_copy_to_host(loaded, read, sizeof(read)));
    CHECK(memcmp(read, numbers, sizeof(read)) == 0);
    umbo_tensor_release(loaded);
    CHECK_OK(umbo_tensor_save_all(2, names, tensors, npz));
    CHECK_OK(umbo_tensor_load(npz, "second", &loaded));
    CHECK_OK(umbo_tensor_copy_to_host(loaded, read, sizeof(read[0])));
    CHECK(read[0] == 1.5f);
    umbo_tensor_release(loaded);
    CHECK_FAILS(umbo_tensor_load(npz, "third", &loaded), UMBO_STATUS_NOT_FOUND, "first, second");
    CHECK_FAILS(umbo_tensor_load(npz, NULL, &loaded), UMBO_STATUS_INVALID_ARGUMENT, "not a .npy file");
    CHECK_FAILS(umbo_tensor_load("no such file", NULL, &loaded), UMBO_STATUS_NOT_FOUND, "no such file");
    CHECK_FAILS(umbo_tensor_save(first, "no/such/folder"), UMBO_STATUS_NOT_FOUND, "no/such");
    CHECK_FAILS(umbo_tensor_save_all(0, names, tensors, npz), UMBO_STATUS_INVALID_ARGUMENT, "count");
    umbo_tensor_release(second);
    umbo_tensor_release(first);
    CHECK(remove(npy) == 0 && remove(npz) == 0);
    return finish();
}
