/* A program with a header of DLPack of its own, which comes first: Umbo's functions take its structs. */
#include "others_dlpack.h"

#include "check.h"

#include <umbo/dlpack.h>

#if !defined(OTHERS_DLPACK) || DLPACK_MINOR_VERSION != 9
#error "the program's own header counts"
#endif

int main(void) {
    umbo_tensor *tensor = make_float(3), *back = NULL;
    DLManagedTensorVersioned *managed = NULL;
    DLManagedTensor *legacy = NULL;
    CHECK_OK(umbo_tensor_to_dlpack(tensor, &managed));
    CHECK(managed->dl_tensor.ndim == 0 && *(const float *)managed->dl_tensor.data == 3);
    CHECK_OK(umbo_tensor_from_dlpack(managed, &back));
    umbo_tensor_release(back);
    CHECK_OK(umbo_tensor_to_dlpack_legacy(tensor, &legacy));
    legacy->deleter(legacy);
    umbo_tensor_release(tensor);
    return 0;
}
