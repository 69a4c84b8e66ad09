/* Vectors of words are learned from the words around them, with negative sampling: threads have parts of the text, and change
 * the same vectors without locks. skipgram.diff puts Umbo into it.
 *
 *   skipgram [EPOCHS [THREADS [SIZE [FILE]]]]
 *
 * FILE gets the vectors at the end. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 40000, VOCABULARY = 2000, TOPICS = 40, WINDOW = 4, NEGATIVE = 5, TABLE = 100000, STEPS = 1000, MOST = 6 };
static const float RATE = 0.05f;

static int text[WORDS], draws[TABLE]; /* words; and words as often as they are drawn */
static float sigmoids[STEPS];         /* from -MOST to MOST */
static float *vectors, *contexts;     /* of each word, `size` numbers */
static int size, epochs, threads;
static volatile long done; /* words, of all threads, or nearly so: they count without locks, too */

static unsigned next(unsigned *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Sentences about a topic: half of their words are common ones, the others the topic's, and all lower numbers more often. */
static void make_text(void) {
  unsigned state = 1;
  int topic = 0;
  for (int i = 0; i < WORDS; ++i) {
    const float share = (float)next(&state) / 16777216.0f;
    if (i % 20 == 0) topic = (int)(next(&state) % TOPICS);
    const int rank = (int)(share * share * (VOCABULARY / (TOPICS + 1)));
    text[i] = rank * (TOPICS + 1) + (next(&state) % 2 ? topic : TOPICS);
  }
}

static void make_tables(void) {
  static int counts[VOCABULARY];
  double all = 0, part = 0;
  for (int i = 0; i < WORDS; ++i) ++counts[text[i]];
  for (int w = 0; w < VOCABULARY; ++w) all += pow(counts[w], 0.75);
  for (int w = 0, i = 0; w < VOCABULARY; ++w) {
    part += pow(counts[w], 0.75) / all;
    for (; i < TABLE && (i < part * TABLE || w == VOCABULARY - 1); ++i) draws[i] = w;
  }
  for (int i = 0; i < STEPS; ++i) sigmoids[i] = 1 / (1 + expf(-(2 * (float)i / STEPS - 1) * MOST));
}

static float sigmoid(float x) {
  if (x >= MOST) return 1;
  if (x < -MOST) return 0;
  return sigmoids[(int)((x + MOST) * (STEPS / MOST / 2))];
}

static float dot(const float *a, const float *b) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/* Learns from the words around the one at a place. */
static void learn_word(int at, float rate, unsigned *state) {
  float change[1024];
  const int window = 1 + (int)(next(state) % WINDOW);
  for (int near = at - window; near <= at + window; ++near) {
    if (near < 0 || near >= WORDS || near == at) continue;
    float *vector = vectors + (size_t)text[near] * size;
    for (int i = 0; i < size; ++i) change[i] = 0;
    for (int k = 0; k <= NEGATIVE; ++k) {
      const int word = k == 0 ? text[at] : draws[next(state) % TABLE];
      if (k > 0 && word == text[at]) continue;
      float *context = contexts + (size_t)word * size;
      const float error = sigmoid(dot(vector, context)) - (float)(k == 0);
      for (int i = 0; i < size; ++i) change[i] += error * context[i];
      for (int i = 0; i < size; ++i) context[i] -= rate * error * vector[i];
    }
    for (int i = 0; i < size; ++i) vector[i] -= rate * change[i];
  }
}

/* A thread learns from its part of the text. */
static void *learn_part(void *argument) {
  const long thread = *(const int *)argument;
  const int first = (int)(WORDS * thread / threads), end = (int)(WORDS * (thread + 1) / threads);
  unsigned state = (unsigned)thread;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (int at = first; at < end; ++at) {
      const float rest = 1 - (float)done / ((float)epochs * WORDS);
      learn_word(at, RATE * (rest > 0.0001f ? rest : 0.0001f), &state);
      if (at % 100 == 0) done += 100;
    }
  }
  return NULL;
}

static void train(void) {
  pthread_t started[256];
  int numbers[256];
  for (int i = 0; i < threads; ++i) {
    numbers[i] = i;
    if (pthread_create(&started[i], NULL, learn_part, &numbers[i]) != 0) exit(1);
  }
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
}

/* The mean loss of a pair: of words with the next one, and with those that are drawn. */
static double mean_loss(void) {
  unsigned state = 1;
  double loss = 0;
  for (int at = 0; at + 1 < WORDS; ++at) {
    const float *vector = vectors + (size_t)text[at] * size;
    for (int k = 0; k <= NEGATIVE; ++k) {
      const int word = k == 0 ? text[at + 1] : draws[next(&state) % TABLE];
      const double product = dot(vector, contexts + (size_t)word * size);
      loss += log1p(exp(k == 0 ? -product : product));
    }
  }
  return loss / ((NEGATIVE + 1.0) * (WORDS - 1));
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
  const char *file = argc > 4 ? argv[4] : NULL;
  unsigned state = 1;
  epochs = argc > 1 ? atoi(argv[1]) : 3;
  threads = argc > 2 ? atoi(argv[2]) : 2;
  size = argc > 3 ? atoi(argv[3]) : 32;
  const size_t numbers = (size_t)VOCABULARY * (size_t)size;
  vectors = malloc(numbers * sizeof *vectors);
  contexts = calloc(numbers, sizeof *contexts);
  if (threads > 256 || size > 1024 || vectors == NULL || contexts == NULL) return 1;
  for (size_t i = 0; i < numbers; ++i) vectors[i] = ((float)next(&state) / 16777216.0f - 0.5f) / (float)size;
  make_text();
  make_tables();
  const double start = now();
  train();
  const double seconds = now() - start;
  printf("loss %.6f, %.0f words/s\n", mean_loss(), (double)epochs * WORDS / seconds);
  if (file != NULL) {
    FILE *out = fopen(file, "wb");
    if (out == NULL || fwrite(vectors, sizeof(float), numbers, out) != numbers ||
        fwrite(contexts, sizeof(float), numbers, out) != numbers || fclose(out) != 0) {
      return 1;
    }
  }
  free(vectors);
  free(contexts);
  return 0;
}
