/* Tensors from and for other libraries, by DLPack: nothing is copied, and who releases what. */
#include "check.h"

#include <pthread.h>

#include <umbo/dlpack.h>

#include "others_dlpack.h"

#ifdef OTHERS_DLPACK
#error "a header of DLPack that comes later adds nothing"
#endif

/* The layout of the ABI on machines of 64 bits. */
typedef char versioned_size[sizeof(void *) != 8 || sizeof(DLManagedTensorVersioned) == 80 ? 1 : -1];
typedef char legacy_size[sizeof(void *) != 8 || sizeof(DLManagedTensor) == 64 ? 1 : -1];

static float numbers[24];
static int64_t shape[2] = {4, 6};
static int64_t strides[2] = {6, 1};

static void count(DLManagedTensorVersioned *managed) { ++*(int *)managed->manager_ctx; }
static void count_legacy(DLManagedTensor *managed) { ++*(int *)managed->manager_ctx; }

static DLManagedTensorVersioned others(int *released) {
    DLManagedTensorVersioned managed;
    memset(&managed, 0, sizeof(managed));
    managed.version.major = DLPACK_MAJOR_VERSION;
    managed.version.minor = 7; /* later ones add to what is known */
    managed.manager_ctx = released;
    managed.deleter = count;
    managed.dl_tensor.data = numbers;
    managed.dl_tensor.device.device_type = kDLCPU;
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype.code = kDLFloat;
    managed.dl_tensor.dtype.bits = 32;
    managed.dl_tensor.dtype.lanes = 1;
    managed.dl_tensor.shape = shape;
    managed.dl_tensor.strides = strides;
    return managed;
}

static void *release(void *tensor) {
    umbo_tensor_release((umbo_tensor *)tensor);
    return NULL;
}

static void others_memory_is_used_in_place(void) {
    int released = 0, index;
    DLManagedTensorVersioned managed = others(&released);
    umbo_tensor *tensor = NULL, *part = NULL;
    umbo_view view;
    pthread_t thread;
    for (index = 0; index < 24; index++) numbers[index] = (float)index;
    managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    managed.dl_tensor.byte_offset = sizeof(float);
    managed.dl_tensor.ndim = 1;
    strides[0] = 5;
    CHECK_OK(umbo_tensor_from_dlpack(&managed, &tensor));
    strides[0] = 6;
    CHECK_OK(umbo_tensor_mutable_view(tensor, &view));
    CHECK(view.data == numbers + 1 && view.mutable_data == NULL && view.ndim == 1);
    CHECK((view.flags & UMBO_VIEW_READ_ONLY) != 0 && view.strides[0] == 5 && view.shape[0] == 4);
    CHECK_OK(umbo_tensor_slice(tensor, 0, 1, 2, 1, &part));
    umbo_tensor_release(tensor);
    CHECK(released == 0);
    CHECK(pthread_create(&thread, NULL, release, part) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(released == 1);

    /* The older form; without strides, and without a deleter. */
    {
        DLManagedTensor legacy;
        memset(&legacy, 0, sizeof(legacy));
        legacy.dl_tensor = others(&released).dl_tensor;
        legacy.dl_tensor.strides = NULL;
        legacy.manager_ctx = &released;
        legacy.deleter = count_legacy;
        CHECK_OK(umbo_tensor_from_dlpack_legacy(&legacy, &tensor));
        CHECK_OK(umbo_tensor_mutable_view(tensor, &view));
        CHECK(view.mutable_data == numbers && view.strides[0] == 6 && view.strides[1] == 1);
        umbo_tensor_release(tensor);
        CHECK(released == 2);
        legacy.deleter = NULL;
        CHECK_OK(umbo_tensor_from_dlpack_legacy(&legacy, &tensor));
        umbo_tensor_release(tensor);
        CHECK(released == 2);
    }
}

static void refused(DLManagedTensorVersioned managed, umbo_status expected, const char *reason) {
    umbo_tensor *tensor = NULL;
    CHECK(umbo_tensor_from_dlpack(&managed, &tensor) == expected);
    CHECK(tensor == NULL && strstr(umbo_last_error_message(), reason) != NULL);
    CHECK(*(int *)managed.manager_ctx == 0);
}

/* What is refused is still the caller's. */
static void what_does_not_fit_is_refused(void) {
    static int64_t backwards[2] = {-6, 1}, far[2] = {INT64_MAX / 2, 1}, negative[2] = {4, -1};
    static int64_t huge[2] = {INT64_MAX, INT64_MAX}, one[2] = {1, 6};
    int released = 0;
    const DLManagedTensorVersioned good = others(&released);
    DLManagedTensorVersioned wrong;
#define WRONG(field, value, status, reason) \
    (wrong = good, wrong.field = (value), refused(wrong, UMBO_STATUS_##status, reason))
    WRONG(version.major, 2, UNIMPLEMENTED, "version 2.7");
    WRONG(dl_tensor.device.device_type, kDLVulkan, UNIMPLEMENTED, "device type 7");
    WRONG(dl_tensor.dtype.code, kDLComplex, UNIMPLEMENTED, "type code 5");
    WRONG(dl_tensor.dtype.bits, 33, UNIMPLEMENTED, "33 bits");
    WRONG(dl_tensor.dtype.lanes, 4, UNIMPLEMENTED, "4 lanes");
    WRONG(dl_tensor.ndim, -1, INVALID_ARGUMENT, "-1 dimensions");
    WRONG(dl_tensor.ndim, 9, INVALID_ARGUMENT, "9 dimensions");
    WRONG(dl_tensor.shape, NULL, INVALID_ARGUMENT, "shape is NULL");
    WRONG(dl_tensor.shape, negative, INVALID_ARGUMENT, "dimension 1 is -1");
    WRONG(dl_tensor.shape, huge, INVALID_ARGUMENT, "shape");
    WRONG(dl_tensor.strides, backwards, UNIMPLEMENTED, "backwards");
    WRONG(dl_tensor.strides, far, INVALID_ARGUMENT, "address");
    WRONG(dl_tensor.data, NULL, INVALID_ARGUMENT, "data is NULL");
    WRONG(dl_tensor.byte_offset, 2, INVALID_ARGUMENT, "multiple of 4");
    WRONG(dl_tensor.byte_offset, UINT64_MAX, INVALID_ARGUMENT, "address");
    CHECK(umbo_tensor_from_dlpack(NULL, NULL) == UMBO_STATUS_INVALID_ARGUMENT);

    /* Where there are no neighbours, strides say nothing. */
    {
        DLManagedTensorVersioned single = good;
        umbo_tensor *tensor = NULL;
        single.dl_tensor.shape = one;
        single.dl_tensor.strides = backwards;
        CHECK_OK(umbo_tensor_from_dlpack(&single, &tensor));
        umbo_tensor_release(tensor);
        CHECK(released == 1);
        one[1] = 0;
        single.dl_tensor.data = NULL;
        CHECK_OK(umbo_tensor_from_dlpack(&single, &tensor));
        umbo_tensor_release(tensor);
        CHECK(released == 2);
    }
}

static void ours_is_given_in_place(void) {
    umbo_tensor *tensor = make_floats(6, numbers), *column = NULL, *back = NULL;
    const int64_t two_by_three[2] = {2, 3};
    DLManagedTensorVersioned *managed = NULL;
    DLManagedTensor *legacy = NULL;
    umbo_tensor *matrix = NULL;
    umbo_view view, again;
    CHECK_OK(umbo_tensor_reshape(tensor, 2, two_by_three, &matrix));
    CHECK_OK(umbo_tensor_slice(matrix, 1, 1, 3, 1, &column));
    CHECK_OK(umbo_tensor_view(column, &view));
    CHECK_OK(umbo_tensor_to_dlpack(column, &managed));
    CHECK_OK(umbo_tensor_to_dlpack_legacy(column, &legacy));
    umbo_tensor_release(tensor);
    umbo_tensor_release(matrix);
    umbo_tensor_release(column);
    CHECK(managed->version.major == 1 && managed->flags == 0);
    CHECK(managed->dl_tensor.data == view.data && legacy->dl_tensor.data == view.data);
    CHECK(managed->dl_tensor.ndim == 2 && managed->dl_tensor.byte_offset == 0);
    CHECK(managed->dl_tensor.shape[0] == 2 && managed->dl_tensor.shape[1] == 2);
    CHECK(managed->dl_tensor.strides[0] == 3 && managed->dl_tensor.strides[1] == 1);
    CHECK(managed->dl_tensor.device.device_type == kDLCPU && managed->dl_tensor.dtype.bits == 32);
    legacy->deleter(legacy);
    /* What comes back is the same memory, which stays as long as that is there. */
    CHECK_OK(umbo_tensor_from_dlpack(managed, &back));
    CHECK_OK(umbo_tensor_mutable_view(back, &again));
    CHECK(again.data == view.data && again.mutable_data == view.data);
    CHECK(((const float *)again.data)[3] == numbers[4]);
    umbo_tensor_release(back);
}

/* An element of a dataset may only be read. */
static void read_only_stays_read_only(void) {
    umbo_value *rows = floats_value(6, numbers), *element = NULL;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_tensor *tensor = NULL;
    DLManagedTensorVersioned *managed = NULL;
    DLManagedTensor *legacy = NULL;
    CHECK_OK(umbo_dataset_from_tensor_slices(rows, &dataset));
    CHECK_OK(umbo_dataset_batch(&dataset, 2, 0));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_tensor(element, &tensor));
    CHECK_OK(umbo_tensor_to_dlpack(tensor, &managed));
    CHECK((managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
    CHECK(umbo_tensor_to_dlpack_legacy(tensor, &legacy) == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), "only to be read") != NULL && legacy == NULL);
    umbo_tensor_release(tensor);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_value_release(rows);
    CHECK(((const float *)managed->dl_tensor.data)[1] == numbers[1]);
    managed->deleter(managed);
}

static void destroyed(void *user_data) { ++*(int *)user_data; }

struct gradient_check {
    umbo_gradients *gradients;
    umbo_variable *variable;
    int destroyed[2];
};

static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *arguments,
                                void *user_data, umbo_value **result) {
    struct gradient_check *const check = (struct gradient_check *)user_data;
    DLManagedTensorVersioned *value = NULL, *gradient = NULL;
    umbo_view view;
    int32_t replica = 0;
    (void)arguments;
    (void)result;
    replica = replica_id(context);
    UMBO_TRY(umbo_variable_view(check->variable, context, UMBO_DTYPE_NONE, &view));
    UMBO_TRY(umbo_view_to_dlpack(&view, &check->destroyed[replica], destroyed, &value));
    CHECK(value->dl_tensor.data == view.data);
    CHECK((value->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
    UMBO_TRY(umbo_gradients_view(check->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    UMBO_TRY(umbo_view_to_dlpack(&view, NULL, NULL, &gradient));
    CHECK(gradient->flags == 0 && gradient->dl_tensor.data == view.mutable_data);
    ((float *)gradient->dl_tensor.data)[0] = 2 * ((const float *)value->dl_tensor.data)[0];
    value->deleter(value);
    gradient->deleter(gradient);
    CHECK(check->destroyed[replica] == 1);
    return UMBO_OK;
}

/* Variables and gradients have no tensors of their own, but views. */
static void views_are_given_in_place(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    struct gradient_check check;
    umbo_strategy *strategy = NULL;
    umbo_tensor *initial = make_floats(1, numbers + 3);
    DLManagedTensorVersioned *managed = NULL;
    umbo_view view;
    int gone = 0;
    memset(&check, 0, sizeof(check));
    options.cpu_replicas = 2;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_variable_create(strategy, "v", initial, NULL, &check.variable));
    CHECK_OK(umbo_gradients_create(strategy, 1, &check.variable, UMBO_LOSS_SUM, NULL,
                                   &check.gradients));
    CHECK_OK(umbo_strategy_run(strategy, on_a_replica, NULL, &check, NULL, NULL));
    CHECK(check.destroyed[0] == 1 && check.destroyed[1] == 1);
    CHECK(umbo_view_to_dlpack(NULL, &gone, destroyed, &managed) == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(gone == 1);
    CHECK_OK(umbo_tensor_view(initial, &view));
    view.ndim = 9;
    CHECK(umbo_view_to_dlpack(&view, &gone, destroyed, &managed) == UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(gone == 2 && managed == NULL);
    umbo_gradients_release(check.gradients);
    umbo_variable_release(check.variable);
    umbo_tensor_release(initial);
    umbo_strategy_release(strategy);
}

int main(void) {
    others_memory_is_used_in_place();
    what_does_not_fit_is_refused();
    ours_is_given_in_place();
    read_only_stays_read_only();
    views_are_given_in_place();
    return 0;
}
