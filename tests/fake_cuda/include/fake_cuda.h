/* What the fake CUDA driver can do beyond a real one. The function is found with dlsym in the libcuda.so.1
 * that the process has loaded. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* "reports": how many mistakes of the program were found so far, and their texts, a line each, cut to `room`
 * bytes with a zero. The other questions are those of tests/fake_cuda/src/control.rs. */
uint64_t fake_cuda_ask(const char *question, char *text, size_t room);

#endif
