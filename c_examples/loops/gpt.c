/* A small GPT learns to continue text, written by hand: all weights in one array, a forward and a backward pass of each layer,
 * OpenMP in the layers that take the most time, and AdamW. gpt.diff puts Umbo into it.
 *
 *   gpt [STEPS [THREADS [CHANNELS [FILE]]]]
 *
 * FILE gets the weights at the end. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 128, CONTEXT = 32, LAYERS = 2, HEADS = 4, BATCH = 8, TEXT = 1 << 16 };
static unsigned char text[TEXT];
static const float RATE = 0.001f, BETA1 = 0.9f, BETA2 = 0.999f, EPSILON = 1e-8f, DECAY = 0.01f;

/* Weights, or their gradients. */
typedef struct {
  float *token, *position;                                    /* embeddings; token is the last layer's matrix, too */
  float *norm1_w, *norm1_b, *qkv_w, *qkv_b, *join_w, *join_b; /* of each layer: attention */
  float *norm2_w, *norm2_b, *up_w, *up_b, *down_w, *down_b;   /* of each layer: perceptron */
  float *norm_w, *norm_b;
} parameters;

/* What the layers give, or the gradients of that. */
typedef struct {
  float *embedded, *norm1, *qkv, *scores, *mixed, *joined, *residual1, *norm2, *up, *gelu, *down, *residual2, *norm, *logits;
} activations;

typedef struct {
  int channels;
  size_t count; /* of weights */
  float *weights, *gradients, *moment1, *moment2;
  parameters w, g;
  int batch, capacity; /* sequences: of the last forward pass, and for which there is memory */
  float *memory[2];
  activations a, d;
  const unsigned char *from; /* the text of the last forward pass */
} gpt;

/* Lets `p` point into an array of weights, and gives how many there are. */
static size_t place_parameters(parameters *p, float *array, size_t c) {
  float **const pointers[] = {&p->token,   &p->position, &p->norm1_w, &p->norm1_b, &p->qkv_w,  &p->qkv_b,  &p->join_w, &p->join_b,
                              &p->norm2_w, &p->norm2_b,  &p->up_w,    &p->up_b,    &p->down_w, &p->down_b, &p->norm_w, &p->norm_b};
  const size_t sizes[] = {VOCABULARY * c, CONTEXT * c,  LAYERS * c,         LAYERS * c,     LAYERS * 3 * c * c, LAYERS * 3 * c,
                          LAYERS * c * c, LAYERS * c,   LAYERS * c,         LAYERS * c,     LAYERS * 4 * c * c, LAYERS * 4 * c,
                          LAYERS * 4 * c * c, LAYERS * c, c,                c};
  size_t count = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    if (array != NULL) *pointers[i] = array + count;
    count += sizes[i];
  }
  return count;
}

/* The same for activations of `n` positions. */
static size_t place_activations(activations *a, float *array, size_t n, size_t c) {
  float **const pointers[] = {&a->embedded, &a->norm1, &a->qkv,  &a->scores, &a->mixed,     &a->joined, &a->residual1,
                              &a->norm2,    &a->up,    &a->gelu, &a->down,   &a->residual2, &a->norm,   &a->logits};
  const size_t l = LAYERS * n;
  const size_t sizes[] = {n * c, l * c, l * 3 * c, l * HEADS * CONTEXT, l * c, l * c, l * c,
                          l * c, l * 4 * c, l * 4 * c, l * c, l * c, n * c, n * VOCABULARY};
  size_t count = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    if (array != NULL) *pointers[i] = array + count;
    count += sizes[i];
  }
  return count;
}

static float *numbers(size_t count) {
  float *array = calloc(count, sizeof *array);
  if (array == NULL) {
    fprintf(stderr, "gpt: out of memory\n");
    exit(1);
  }
  return array;
}

static float next_random(void) { /* from -1 to 1 */
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void gpt_build(gpt *model, int channels) {
  const size_t c = (size_t)channels;
  memset(model, 0, sizeof *model);
  model->channels = channels;
  model->count = place_parameters(&model->w, NULL, c);
  model->weights = numbers(model->count);
  model->gradients = numbers(model->count);
  model->moment1 = numbers(model->count);
  model->moment2 = numbers(model->count);
  place_parameters(&model->w, model->weights, c);
  place_parameters(&model->g, model->gradients, c);
  for (size_t i = 0; i < model->count; ++i) model->weights[i] = 0.04f * next_random();
  for (size_t i = 0; i < LAYERS * c; ++i) model->w.norm1_w[i] = model->w.norm2_w[i] = 1;
  for (size_t i = 0; i < c; ++i) model->w.norm_w[i] = 1;
}

/* y = W x + b at each of `n` positions. */
static void matmul_forward(float *y, const float *x, const float *w, const float *b, int n, int in, int out) {
#pragma omp parallel for
  for (int p = 0; p < n; ++p) {
    const float *from = x + (size_t)p * in;
    for (int o = 0; o < out; ++o) {
      const float *row = w + (size_t)o * in;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int i = 0; i < in; ++i) sum += row[i] * from[i];
      y[(size_t)p * out + o] = b == NULL ? sum : sum + b[o];
    }
  }
}

static void matmul_backward(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w, int n, int in,
                            int out) {
#pragma omp parallel for
  for (int p = 0; p < n; ++p) {
    float *to = dx + (size_t)p * in;
    for (int o = 0; o < out; ++o) {
      const float *row = w + (size_t)o * in, d = dy[(size_t)p * out + o];
      for (int i = 0; i < in; ++i) to[i] += row[i] * d;
    }
  }
#pragma omp parallel for
  for (int o = 0; o < out; ++o) {
    float *to = dw + (size_t)o * in;
    for (int p = 0; p < n; ++p) {
      const float *from = x + (size_t)p * in, d = dy[(size_t)p * out + o];
      if (db != NULL) db[o] += d;
      for (int i = 0; i < in; ++i) to[i] += from[i] * d;
    }
  }
}

/* The mean and the reciprocal deviation of a position. */
static void moments(const float *x, int c, float *mean, float *scale) {
  float sum = 0, squares = 0;
  for (int i = 0; i < c; ++i) sum += x[i];
  *mean = sum / (float)c;
  for (int i = 0; i < c; ++i) squares += (x[i] - *mean) * (x[i] - *mean);
  *scale = 1 / sqrtf(squares / (float)c + 1e-5f);
}

static void norm_forward(float *y, const float *x, const float *w, const float *b, int n, int c) {
  for (int p = 0; p < n; ++p, x += c, y += c) {
    float mean, scale;
    moments(x, c, &mean, &scale);
    for (int i = 0; i < c; ++i) y[i] = (x[i] - mean) * scale * w[i] + b[i];
  }
}

static void norm_backward(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w, int n, int c) {
  for (int p = 0; p < n; ++p, x += c, dx += c, dy += c) {
    float mean, scale, sum = 0, product = 0;
    moments(x, c, &mean, &scale);
    for (int i = 0; i < c; ++i) {
      const float normal = (x[i] - mean) * scale;
      db[i] += dy[i];
      dw[i] += dy[i] * normal;
      sum += dy[i] * w[i];
      product += dy[i] * w[i] * normal;
    }
    sum /= (float)c;
    product /= (float)c;
    for (int i = 0; i < c; ++i) dx[i] += scale * (dy[i] * w[i] - sum - (x[i] - mean) * scale * product);
  }
}

/* A position of each head looks at itself and those before it. */
static void attention_forward(float *mixed, float *scores, const float *qkv, int batch, int c) {
  const int size = c / HEADS;
  const float scale = 1 / sqrtf((float)size);
#pragma omp parallel for collapse(3)
  for (int b = 0; b < batch; ++b) {
    for (int t = 0; t < CONTEXT; ++t) {
      for (int h = 0; h < HEADS; ++h) {
        const size_t p = (size_t)b * CONTEXT + t;
        const float *query = qkv + p * 3 * c + h * size;
        float *score = scores + (p * HEADS + h) * CONTEXT, *to = mixed + p * c + h * size, most = -1e9f, sum = 0;
        for (int s = 0; s <= t; ++s) {
          const float *key = qkv + ((size_t)b * CONTEXT + s) * 3 * c + c + h * size;
          score[s] = 0;
          for (int i = 0; i < size; ++i) score[s] += query[i] * key[i];
          score[s] *= scale;
          if (score[s] > most) most = score[s];
        }
        for (int s = 0; s <= t; ++s) sum += score[s] = expf(score[s] - most);
        memset(to, 0, (size_t)size * sizeof *to);
        for (int s = 0; s <= t; ++s) {
          const float *value = qkv + ((size_t)b * CONTEXT + s) * 3 * c + 2 * c + h * size;
          score[s] /= sum;
          for (int i = 0; i < size; ++i) to[i] += score[s] * value[i];
        }
      }
    }
  }
}

static void attention_backward(float *dqkv, const float *dmixed, const float *scores, const float *qkv, int batch, int c) {
  const int size = c / HEADS;
  const float scale = 1 / sqrtf((float)size);
  for (int b = 0; b < batch; ++b) {
    for (int t = 0; t < CONTEXT; ++t) {
      for (int h = 0; h < HEADS; ++h) {
        const size_t p = (size_t)b * CONTEXT + t, query = p * 3 * c + h * size;
        const float *score = scores + (p * HEADS + h) * CONTEXT, *from = dmixed + p * c + h * size;
        float dscore[CONTEXT], sum = 0;
        for (int s = 0; s <= t; ++s) {
          const size_t value = ((size_t)b * CONTEXT + s) * 3 * c + 2 * c + h * size;
          dscore[s] = 0;
          for (int i = 0; i < size; ++i) {
            dscore[s] += qkv[value + i] * from[i];
            dqkv[value + i] += score[s] * from[i];
          }
          sum += dscore[s] * score[s];
        }
        for (int s = 0; s <= t; ++s) {
          const size_t key = ((size_t)b * CONTEXT + s) * 3 * c + c + h * size;
          const float d = score[s] * (dscore[s] - sum) * scale;
          for (int i = 0; i < size; ++i) {
            dqkv[query + i] += qkv[key + i] * d;
            dqkv[key + i] += qkv[query + i] * d;
          }
        }
      }
    }
  }
}

static const float GELU_SCALE = 0.7978845608f; /* the root of 2 / pi */

static void gelu_forward(float *y, const float *x, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = 0.5f * x[i] * (1 + tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

static void gelu_backward(float *dx, const float *dy, const float *x, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float square = x[i] * x[i], bent = tanhf(GELU_SCALE * (x[i] + 0.044715f * x[i] * square));
    const float slope = (1 - bent * bent) * GELU_SCALE * (1 + 3 * 0.044715f * square);
    dx[i] += dy[i] * (0.5f * (1 + bent) + 0.5f * x[i] * slope);
  }
}

static void residual_forward(float *y, const float *x1, const float *x2, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] = x1[i] + x2[i];
}

static void residual_backward(float *dx1, float *dx2, const float *dy, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    dx1[i] += dy[i];
    dx2[i] += dy[i];
  }
}

/* Turns logits into probabilities, and gives the mean loss of the characters that follow. */
static float softmax(float *logits, const unsigned char *from, int n) {
  double loss = 0;
#pragma omp parallel for reduction(+ : loss)
  for (int p = 0; p < n; ++p) {
    float *row = logits + (size_t)p * VOCABULARY, most = row[0], sum = 0;
    for (int i = 1; i < VOCABULARY; ++i) most = fmaxf(most, row[i]);
    for (int i = 0; i < VOCABULARY; ++i) sum += row[i] = expf(row[i] - most);
    for (int i = 0; i < VOCABULARY; ++i) row[i] /= sum;
    loss -= log(row[from[p + 1]]);
  }
  return (float)(loss / n);
}

/* Predicts each character of `batch` sequences from those before it; gives the mean loss. */
static float gpt_forward(gpt *model, const unsigned char *from, int batch) {
  const int c = model->channels, n = batch * CONTEXT;
  const size_t size = (size_t)n * c;
  const parameters *w = &model->w;
  activations *a = &model->a;
  if (batch > model->capacity) {
    for (int i = 0; i < 2; ++i) {
      free(model->memory[i]);
      model->memory[i] = numbers(place_activations(a, NULL, n, c));
    }
    model->capacity = batch;
  }
  place_activations(a, model->memory[0], n, c);
  model->from = from;
  model->batch = batch;
  for (int p = 0; p < n; ++p) {
    const float *token = w->token + from[p] * c, *position = w->position + p % CONTEXT * c;
    for (int i = 0; i < c; ++i) a->embedded[(size_t)p * c + i] = token[i] + position[i];
  }
  for (int l = 0; l < LAYERS; ++l) {
    const float *x = l == 0 ? a->embedded : a->residual2 + (l - 1) * size;
    float *scores = a->scores + (size_t)l * n * HEADS * CONTEXT;
    norm_forward(a->norm1 + l * size, x, w->norm1_w + l * c, w->norm1_b + l * c, n, c);
    matmul_forward(a->qkv + l * 3 * size, a->norm1 + l * size, w->qkv_w + l * 3 * c * c, w->qkv_b + l * 3 * c, n, c, 3 * c);
    attention_forward(a->mixed + l * size, scores, a->qkv + l * 3 * size, batch, c);
    matmul_forward(a->joined + l * size, a->mixed + l * size, w->join_w + l * c * c, w->join_b + l * c, n, c, c);
    residual_forward(a->residual1 + l * size, x, a->joined + l * size, size);
    norm_forward(a->norm2 + l * size, a->residual1 + l * size, w->norm2_w + l * c, w->norm2_b + l * c, n, c);
    matmul_forward(a->up + l * 4 * size, a->norm2 + l * size, w->up_w + l * 4 * c * c, w->up_b + l * 4 * c, n, c, 4 * c);
    gelu_forward(a->gelu + l * 4 * size, a->up + l * 4 * size, 4 * size);
    matmul_forward(a->down + l * size, a->gelu + l * 4 * size, w->down_w + l * 4 * c * c, w->down_b + l * c, n, 4 * c, c);
    residual_forward(a->residual2 + l * size, a->residual1 + l * size, a->down + l * size, size);
  }
  norm_forward(a->norm, a->residual2 + (LAYERS - 1) * size, w->norm_w, w->norm_b, n, c);
  matmul_forward(a->logits, a->norm, w->token, NULL, n, c, VOCABULARY);
  return softmax(a->logits, from, n);
}

/* Adds the gradients of the last forward pass. */
static void gpt_backward(gpt *model) {
  const int c = model->channels, n = model->batch * CONTEXT;
  const size_t size = (size_t)n * c;
  const parameters *w = &model->w, *g = &model->g;
  const activations *a = &model->a, *d = &model->d;
  memset(model->memory[1], 0, place_activations(&model->d, model->memory[1], n, c) * sizeof(float));
  for (int p = 0; p < n; ++p) {
    for (int i = 0; i < VOCABULARY; ++i) {
      const size_t at = (size_t)p * VOCABULARY + i;
      d->logits[at] = (a->logits[at] - (i == model->from[p + 1])) / (float)n;
    }
  }
  matmul_backward(d->norm, g->token, NULL, d->logits, a->norm, w->token, n, c, VOCABULARY);
  norm_backward(d->residual2 + (LAYERS - 1) * size, g->norm_w, g->norm_b, d->norm, a->residual2 + (LAYERS - 1) * size, w->norm_w,
                n, c);
  for (int l = LAYERS - 1; l >= 0; --l) {
    const float *x = l == 0 ? a->embedded : a->residual2 + (l - 1) * size;
    float *dx = l == 0 ? d->embedded : d->residual2 + (l - 1) * size;
    const float *scores = a->scores + (size_t)l * n * HEADS * CONTEXT;
    residual_backward(d->residual1 + l * size, d->down + l * size, d->residual2 + l * size, size);
    matmul_backward(d->gelu + l * 4 * size, g->down_w + l * 4 * c * c, g->down_b + l * c, d->down + l * size,
                    a->gelu + l * 4 * size, w->down_w + l * 4 * c * c, n, 4 * c, c);
    gelu_backward(d->up + l * 4 * size, d->gelu + l * 4 * size, a->up + l * 4 * size, 4 * size);
    matmul_backward(d->norm2 + l * size, g->up_w + l * 4 * c * c, g->up_b + l * 4 * c, d->up + l * 4 * size,
                    a->norm2 + l * size, w->up_w + l * 4 * c * c, n, c, 4 * c);
    norm_backward(d->residual1 + l * size, g->norm2_w + l * c, g->norm2_b + l * c, d->norm2 + l * size,
                  a->residual1 + l * size, w->norm2_w + l * c, n, c);
    residual_backward(dx, d->joined + l * size, d->residual1 + l * size, size);
    matmul_backward(d->mixed + l * size, g->join_w + l * c * c, g->join_b + l * c, d->joined + l * size, a->mixed + l * size,
                    w->join_w + l * c * c, n, c, c);
    attention_backward(d->qkv + l * 3 * size, d->mixed + l * size, scores, a->qkv + l * 3 * size, model->batch, c);
    matmul_backward(d->norm1 + l * size, g->qkv_w + l * 3 * c * c, g->qkv_b + l * 3 * c, d->qkv + l * 3 * size,
                    a->norm1 + l * size, w->qkv_w + l * 3 * c * c, n, c, 3 * c);
    norm_backward(dx, g->norm1_w + l * c, g->norm1_b + l * c, d->norm1 + l * size, x, w->norm1_w + l * c, n, c);
  }
  for (int p = 0; p < n; ++p) {
    const float *error = d->embedded + (size_t)p * c;
    for (int i = 0; i < c; ++i) {
      g->token[model->from[p] * c + i] += error[i];
      g->position[p % CONTEXT * c + i] += error[i];
    }
  }
}

static void gpt_update(gpt *model, int step) {
  const float correction1 = 1 - powf(BETA1, (float)step), correction2 = 1 - powf(BETA2, (float)step);
  for (size_t i = 0; i < model->count; ++i) {
    const float g = model->gradients[i];
    model->moment1[i] = BETA1 * model->moment1[i] + (1 - BETA1) * g;
    model->moment2[i] = BETA2 * model->moment2[i] + (1 - BETA2) * g * g;
    const float m = model->moment1[i] / correction1, v = model->moment2[i] / correction2;
    model->weights[i] -= RATE * (m / (sqrtf(v) + EPSILON) + DECAY * model->weights[i]);
  }
}

/* Sentences of a few words. */
static void make_text(void) {
  static const char *const words[] = {"the ", "cat ", "dog ", "sees ", "hears ", "a ", "small ", "bird ", "and ", "sleeps. "};
  for (int at = 0; at < TEXT;) {
    const char *word = words[(int)((next_random() + 1) * 4.999f)];
    for (; *word != 0 && at < TEXT; ++word) text[at++] = (unsigned char)*word;
  }
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 20, threads = argc > 2 ? atoi(argv[2]) : 2;
  const char *file = argc > 4 ? argv[4] : NULL;
  double loss = 0, start, seconds;
  gpt model;
  make_text();
  gpt_build(&model, argc > 3 ? atoi(argv[3]) : 64);
  omp_set_num_threads(threads);
  start = omp_get_wtime();
  for (int step = 0; step < steps; ++step) {
    const int first = step * BATCH % (TEXT / CONTEXT - BATCH); /* the first of the sequences of this step */
    loss = gpt_forward(&model, text + first * CONTEXT, BATCH);
    memset(model.gradients, 0, model.count * sizeof(float));
    gpt_backward(&model);
    gpt_update(&model, step + 1);
  }
  seconds = omp_get_wtime() - start;
  printf("loss %.6f, %.0f tokens/s\n", loss, (double)steps * BATCH * CONTEXT / seconds);
  if (file != NULL) {
    FILE *out = fopen(file, "wb");
    if (out == NULL || fwrite(model.weights, sizeof(float), model.count, out) != model.count || fclose(out) != 0) return 1;
  }
  return 0;
}
