/* What the fake CUDA driver can do beyond a real one. The functions are found with dlsym in the
 * libcuda.so.1 that the process has loaded. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How many mistakes of the program were found so far. */
size_t fake_cuda_reports(void);

/* The text of one of them, cut to `room` bytes with its zero. 0, or 500 if there is none such. */
int fake_cuda_report(size_t index, char *text, size_t room);

/* Forgets them. */
void fake_cuda_clear_reports(void);

/* Starts the random numbers anew that decide in what order work runs. */
void fake_cuda_seed(uint64_t seed);

/* Lets calls fail: "FUNCTION:NUMBER:CODE[:sticky],...", as FAKE_CUDA_FAULT. "" ends it. Counts of
 * calls start from zero. 0, or 1 if the text cannot be read. */
int fake_cuda_fault(const char *faults);

/* How often a function was called since then; "*" is all of them, "operation" what ran. */
uint64_t fake_cuda_calls(const char *function);

/* How many bytes copies have moved: "to device" and "to host" (over the bus), "between devices",
 * "within a device". Copies that still wait do not count. */
uint64_t fake_cuda_moved(const char *over);

/* How many faults happened since then. */
uint64_t fake_cuda_injected(void);

/* Makes contexts that an error broke usable again, so that one process can try many mistakes. */
void fake_cuda_mend(void);

/* Sets how much memory a device has. 0, or 101 if there is no such device. */
int fake_cuda_limit_memory(int device, uint64_t bytes);

/* Sets how many branches a launch may take before it fails as endless (CUDA_ERROR_LAUNCH_TIMEOUT). */
void fake_cuda_limit_branches(uint64_t most);

/* How many are alive: "memory", "host memory", "streams", "events", "contexts", "modules". */
uint64_t fake_cuda_live(const char *kind);

/* How many instructions of kernels ran whose text begins with a prefix, such as "fma". */
uint64_t fake_cuda_executed(const char *prefix);

/* Instructions of a kernel that no launch executed so far, one a line as "LINE TEXT". 0, or 500 if
 * the kernel was never launched. */
int fake_cuda_never_executed(const char *kernel, char *text, size_t room);

#ifdef __cplusplus
}
#endif

#endif
