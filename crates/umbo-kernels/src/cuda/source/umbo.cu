// All kernels of Umbo. It is one source for clang (which makes the PTX that is embedded in the
// library), for NVRTC, and for the tests' C++ compiler.
#include "copy.cuh"
#include "replicas.cuh"
#include "update.cuh"
#include "measure.cuh"
#include "factored.cuh"
#include "row_copies.cuh"
