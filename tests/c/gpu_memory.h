/* Numbers in the memory of a replica's device, which a GPU's driver copies. */
#ifndef UMBO_TESTS_GPU_MEMORY_H
#define UMBO_TESTS_GPU_MEMORY_H
#include <dlfcn.h>

#include "check.h"

/* A function of the driver that the library has loaded. */
static void *driver_function(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = library == NULL ? NULL : dlsym(library, name);
    CHECK(function != NULL);
    if (library != NULL) CHECK(dlclose(library) == 0);
    return function;
}

/* As dlsym() demands. */
#define DRIVER_FUNCTION(variable, name) (*(void **)&(variable) = driver_function(name))

/* Copies to or from the first bytes of a view. */
static CHECK_MAYBE_UNUSED umbo_status move_bytes(umbo_replica_context *context, const umbo_view *view,
                                                 void *bytes, size_t count, int to_device) {
    const uint64_t there = (uint64_t)(uintptr_t)view->data;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    void *stream;
    if (view->device.type != UMBO_DEVICE_GPU) {
        if (to_device) memcpy(view->mutable_data, bytes, count);
        else memcpy(bytes, view->data, count);
        return UMBO_OK;
    }
    UMBO_TRY(umbo_replica_context_get_info(context, &here));
    stream = here.stream;
    if (to_device) {
        int (*copy)(uint64_t, const void *, size_t, void *);
        DRIVER_FUNCTION(copy, "cuMemcpyHtoDAsync_v2");
        CHECK(copy(there, bytes, count, stream) == 0);
    } else {
        int (*copy)(void *, uint64_t, size_t, void *);
        int (*synchronize)(void *);
        DRIVER_FUNCTION(copy, "cuMemcpyDtoHAsync_v2");
        DRIVER_FUNCTION(synchronize, "cuStreamSynchronize");
        CHECK(copy(bytes, there, count, stream) == 0);
        CHECK(synchronize(stream) == 0);
    }
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status put_number(umbo_replica_context *context, const umbo_view *view,
                                                 float number) {
    return move_bytes(context, view, &number, sizeof(number), 1);
}

static CHECK_MAYBE_UNUSED umbo_status get_number(umbo_replica_context *context, const umbo_view *view,
                                                 float *number) {
    return move_bytes(context, view, number, sizeof(*number), 0);
}

#endif
