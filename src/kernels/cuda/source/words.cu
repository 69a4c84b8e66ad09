// The kernels that add up float32 numbers, for GPUs whose float64 units are few: the same as in umbo.cu,
// with the same bits.
#undef WORDS
#define WORDS 1
#include "measure.cuh"
#include "replicas.cuh"
#include "update.cuh"
