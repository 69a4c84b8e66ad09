/* What lies between the matrix products, a thread for each element. nvcc compiles this, and so does clang without any of
 * CUDA's files, for which the few words of the language are said here. */
#if defined(__clang__) && !defined(__NVCC__)
#define __global__ __attribute__((global))
#define DEVICE static inline __attribute__((device))
DEVICE long long thread_number(void) {
  return (long long)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
}
DEVICE float power_of_2(float exponent) { return __nvvm_ex2_approx_f(exponent); }
DEVICE float logarithm_to_2(float value) { return __nvvm_lg2_approx_f(value); }
#else
#define DEVICE static inline __device__
DEVICE long long thread_number(void) { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE float power_of_2(float exponent) { return exp2f(exponent); }
DEVICE float logarithm_to_2(float value) { return log2f(value); }
#endif

DEVICE float exponential(float value) { return power_of_2(value * 1.44269504f); }
DEVICE float logarithm(float value) { return logarithm_to_2(value) * 0.693147181f; }

/* Pixels as floats of mean 0 and deviation 1. */
extern "C" __global__ void normalize(const unsigned char *pixels, float scale, float shift, long long count,
                                     float *inputs) {
  const long long i = thread_number();
  if (i < count) inputs[i] = (float)pixels[i] * scale + shift;
}

extern "C" __global__ void add_bias(const float *bias, long long columns, long long count, float *values) {
  const long long i = thread_number();
  if (i < count) values[i] += bias[i % columns];
}

extern "C" __global__ void add_bias_and_rectify(const float *bias, long long columns, long long count, float *values) {
  const long long i = thread_number();
  if (i >= count) return;
  const float value = values[i] + bias[i % columns];
  values[i] = value > 0.0f ? value : 0.0f;
}

/* The derivative of ReLU: a gradient passes where the activation is positive. */
extern "C" __global__ void mask(const float *activations, long long count, float *gradient) {
  const long long i = thread_number();
  if (i < count && !(activations[i] > 0.0f)) gradient[i] = 0.0f;
}

/* Softmax cross-entropy, a thread for each row. Of each row: its score {loss, whether it is right, 1}, a 1 for sums over
 * the rows, and, where gradient is not null, softmax(logits) - one_hot(label). */
extern "C" __global__ void softmax_cross_entropy(const float *logits, const unsigned char *labels, long long rows,
                                                 long long classes, float *scores, float *ones, float *gradient) {
  const long long row = thread_number();
  if (row >= rows) return;
  logits += row * classes;
  long long best = 0;
  for (long long j = 1; j < classes; ++j) {
    if (logits[j] > logits[best]) best = j;
  }
  /* Shifted by the largest logit, so that the exponential cannot overflow. */
  const float largest = logits[best];
  float total = 0.0f;
  for (long long j = 0; j < classes; ++j) total += exponential(logits[j] - largest);
  const long long label = labels[row];
  scores[3 * row] = logarithm(total) + largest - logits[label];
  scores[3 * row + 1] = best == label ? 1.0f : 0.0f;
  scores[3 * row + 2] = 1.0f;
  ones[row] = 1.0f;
  if (gradient == 0) return;
  gradient += row * classes;
  for (long long j = 0; j < classes; ++j) {
    gradient[j] = exponential(logits[j] - largest) / total - (j == label ? 1.0f : 0.0f);
  }
}

/* Adds the sums of a step to those of the training. */
extern "C" __global__ void accumulate(const float *sums, long long count, double *totals) {
  const long long i = thread_number();
  if (i < count) totals[i] += (double)sums[i];
}
