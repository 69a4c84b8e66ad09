// Kernels for the tests of the fake driver. samples.ptx is made from them by
//   clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_70 -nocudainc -nocudalib -O3
//     -ffp-contract=off -Xclang -target-feature -Xclang +ptx64 -S samples.cu -o samples.ptx
#define KERNEL extern "C" __attribute__((global)) __attribute__((launch_bounds(256)))
#define DEVICE static __attribute__((device, always_inline)) inline
typedef unsigned u32;
typedef unsigned long long u64;
DEVICE u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 size() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }

// y += a * x
KERNEL void axpy(const float *x, float *y, float a, u32 count) {
  for (u32 i = block() * size() + thread(); i < count; i += size() * blocks()) y[i] = y[i] + a * x[i];
}

// Each block sums 1024 elements, in a tree.
__attribute__((shared)) static double tile[256];
KERNEL void sum(const float *x, double *sums, u32 count) {
  double s = 0;
  for (u32 k = 0; k < 4; k++) {
    u32 i = block() * 1024 + k * 256 + thread();
    if (i < count) s += (double)x[i];
  }
  tile[thread()] = s;
  __syncthreads();
  for (u32 w = 128; w > 0; w >>= 1) {
    if (thread() < w) tile[thread()] += tile[thread() + w];
    __syncthreads();
  }
  if (thread() == 0) sums[block()] = tile[0];
}

// A histogram by atomic operations, first in shared memory.
__attribute__((shared)) static u32 bins[16];
KERNEL void histogram(const u32 *x, u32 *totals, u32 count) {
  if (thread() < 16) bins[thread()] = 0;
  __syncthreads();
  for (u32 i = block() * size() + thread(); i < count; i += size() * blocks())
    __nvvm_atom_add_gen_i((int *)&bins[x[i] & 15], 1);
  __syncthreads();
  if (thread() < 16) __nvvm_atom_add_gen_i((int *)&totals[thread()], (int)bins[thread()]);
}

// The sum over a warp by shuffles, then over the warps by shared memory.
__attribute__((shared)) static float warps[8];
KERNEL void warp_sum(const float *x, float *out) {
  float s = x[thread()];
  for (int w = 16; w > 0; w >>= 1) s += __nvvm_shfl_sync_bfly_f32(0xffffffffu, s, w, 31);
  if (thread() % 32 == 0) warps[thread() / 32] = s;
  __syncthreads();
  if (thread() == 0) {
    float all = 0;
    for (u32 w = 0; w < size() / 32; w++) all += warps[w];
    out[0] = all;
  }
}

// A table in constant memory, local memory with an index that is not known, bytes and halves.
__attribute__((constant)) static const int table[8] = {3, -1, 4, 1, -5, 9, 2, 6};
__attribute__((device)) u32 calls = 7;
__attribute__((device, noinline)) static int pick(const int *from, int at) { return from[at & 7] * 3; }
KERNEL void assorted(const signed char *bytes, unsigned short *halves, int *words, u64 *wide, u32 count) {
  u32 i = block() * size() + thread();
  if (i >= count) return;
  int local[8];
  for (int k = 0; k < 8; k++) local[k] = table[k] * (int)i;
  int b = bytes[i];
  local[(b + 128) & 7] = b;
  words[i] = pick(local, b) / 7 + local[i & 7] % 5 + (int)calls;
  halves[i] = (unsigned short)(b * b);
  wide[i] = ((u64)(u32)b * 0x9e3779b97f4a7c15ull) >> (i & 31) | (u64)__builtin_popcount(i);
}

// Mistakes: no barrier between writing and reading shared memory; all threads write one place.
KERNEL void no_barrier(const float *x, float *out) {
  tile[thread()] = x[thread()];
  out[thread()] = (float)tile[thread() ^ 32];
}
KERNEL void one_place(float *out) { out[0] = (float)thread(); }
