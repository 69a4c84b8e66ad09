/* A small library of neural networks, and a program that trains one: threads have copies of the network and share the rows of
 * each batch; network_train adds their gradients up and updates by momentum. network.diff puts Umbo into network_train.
 *
 *   network [EPOCHS [THREADS [HIDDEN [FILE]]]]
 *
 * FILE gets the weights at the end. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 4000, FEATURES = 64, CLASSES = 10, BATCH = 64 };
static const float RATE = 0.05f, MOMENTUM = 0.9f;

static float next_random(void) { /* from -1 to 1 */
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void *memory(size_t count, size_t size) {
  void *block = calloc(count, size);
  if (block == NULL) {
    fprintf(stderr, "network: out of memory\n");
    exit(1);
  }
  return block;
}

/* A perceptron with one hidden layer. */
typedef struct {
  int hidden;
  size_t count;               /* of weights */
  float *weights, *gradients; /* the first layer's matrix and biases, and those of the second */
  float *values, *errors;     /* of the hidden layer, in a row */
} network;

network *network_create(int hidden) {
  network *net = memory(1, sizeof *net);
  net->hidden = hidden;
  net->count = (size_t)hidden * (FEATURES + 1) + (size_t)CLASSES * (hidden + 1);
  net->weights = memory(net->count, sizeof(float));
  net->gradients = memory(net->count, sizeof(float));
  net->values = memory((size_t)hidden, sizeof(float));
  net->errors = memory((size_t)hidden, sizeof(float));
  return net;
}

void network_free(network *net) {
  free(net->weights);
  free(net->gradients);
  free(net->values);
  free(net->errors);
  free(net);
}

static float dot(const float *a, const float *b, int count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/* Adds a row's gradients, and gives its loss. */
double network_learn_row(network *net, const float *x, int label) {
  const int hidden = net->hidden;
  const size_t biases1 = (size_t)hidden * FEATURES, second = biases1 + (size_t)hidden, biases2 = second + (size_t)hidden * CLASSES;
  const float *w = net->weights;
  float *g = net->gradients, scores[CLASSES], most, sum = 0;
  for (int h = 0; h < hidden; ++h) {
    const float value = w[biases1 + h] + dot(w + (size_t)h * FEATURES, x, FEATURES);
    net->values[h] = value > 0 ? value : 0;
    net->errors[h] = 0;
  }
  for (int c = 0; c < CLASSES; ++c) scores[c] = w[biases2 + c] + dot(w + second + (size_t)c * hidden, net->values, hidden);
  most = scores[0];
  for (int c = 1; c < CLASSES; ++c) most = fmaxf(most, scores[c]);
  for (int c = 0; c < CLASSES; ++c) sum += expf(scores[c] - most);
  for (int c = 0; c < CLASSES; ++c) {
    const float error = expf(scores[c] - most) / sum - (float)(c == label);
    const float *row = w + second + (size_t)c * hidden;
    float *to = g + second + (size_t)c * hidden;
    g[biases2 + c] += error;
    for (int h = 0; h < hidden; ++h) {
      to[h] += error * net->values[h];
      net->errors[h] += error * row[h];
    }
  }
  for (int h = 0; h < hidden; ++h) {
    float *to = g + (size_t)h * FEATURES;
    if (net->values[h] <= 0) continue;
    g[biases1 + h] += net->errors[h];
    for (int i = 0; i < FEATURES; ++i) to[i] += net->errors[h] * x[i];
  }
  return (double)(most + logf(sum) - scores[label]);
}

/* Threads that share the rows of a batch. */
typedef struct team team;
typedef struct {
  pthread_t thread;
  team *team;
  network *copy;
  int first, count;
  double loss;
} worker;

struct team {
  const network *net;
  const float *x;
  const int *labels, *order;
  int threads, end;
  worker *workers;
  pthread_barrier_t before, after;
};

/* Learns from a thread's rows of the batch. */
static void work(worker *w) {
  const team *t = w->team;
  memcpy(w->copy->weights, t->net->weights, t->net->count * sizeof(float));
  memset(w->copy->gradients, 0, t->net->count * sizeof(float));
  w->loss = 0;
  for (int i = w->first; i < w->first + w->count; ++i) {
    w->loss += network_learn_row(w->copy, t->x + (size_t)t->order[i] * FEATURES, t->labels[t->order[i]]);
  }
}

static void *serve(void *argument) {
  worker *w = argument;
  for (;;) {
    pthread_barrier_wait(&w->team->before);
    if (w->team->end) return NULL;
    work(w);
    pthread_barrier_wait(&w->team->after);
  }
}

void team_start(team *t) {
  t->workers = memory((size_t)t->threads, sizeof *t->workers);
  pthread_barrier_init(&t->before, NULL, (unsigned)t->threads);
  pthread_barrier_init(&t->after, NULL, (unsigned)t->threads);
  for (int i = 0; i < t->threads; ++i) {
    t->workers[i].team = t;
    t->workers[i].copy = network_create(t->net->hidden);
    if (i > 0 && pthread_create(&t->workers[i].thread, NULL, serve, &t->workers[i]) != 0) exit(1);
  }
}

void team_end(team *t) {
  t->end = 1;
  pthread_barrier_wait(&t->before);
  for (int i = 0; i < t->threads; ++i) {
    if (i > 0) pthread_join(t->workers[i].thread, NULL);
    network_free(t->workers[i].copy);
  }
  free(t->workers);
}

/* The gradients of a batch, and its loss: sums over its rows. */
double team_cost(team *t, network *net, int first, int count) {
  double loss = 0;
  for (int i = 0; i < t->threads; ++i) {
    t->workers[i].first = first + count * i / t->threads;
    t->workers[i].count = count * (i + 1) / t->threads - count * i / t->threads;
  }
  pthread_barrier_wait(&t->before);
  work(&t->workers[0]);
  pthread_barrier_wait(&t->after);
  memset(net->gradients, 0, net->count * sizeof(float));
  for (int i = 0; i < t->threads; ++i) {
    loss += t->workers[i].loss;
    for (size_t k = 0; k < net->count; ++k) net->gradients[k] += t->workers[i].copy->gradients[k];
  }
  return loss;
}

void momentum(network *net, float *velocity, int rows) {
  for (size_t k = 0; k < net->count; ++k) {
    velocity[k] = MOMENTUM * velocity[k] + net->gradients[k] / (float)rows;
    net->weights[k] -= RATE * velocity[k];
  }
}

static void shuffle(int *order, int count) {
  for (int i = count - 1; i > 0; --i) {
    const int other = (int)((next_random() + 1) / 2 * (float)i), kept = order[i];
    order[i] = order[other];
    order[other] = kept;
  }
}

/* Trains a network on rows with labels; gives the mean loss of a row in the last epoch. */
double network_train(network *net, const float *x, const int *labels, int rows, int epochs, int threads) {
  int *order = memory((size_t)rows, sizeof *order);
  float *velocity = memory(net->count, sizeof *velocity);
  team t = {.net = net, .x = x, .labels = labels, .order = order, .threads = threads};
  double loss = 0;
  team_start(&t);
  for (int i = 0; i < rows; ++i) order[i] = i;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    shuffle(order, rows);
    loss = 0;
    for (int first = 0; first < rows; first += BATCH) {
      const int count = rows - first < BATCH ? rows - first : BATCH;
      loss += team_cost(&t, net, first, count);
      momentum(net, velocity, count);
    }
  }
  team_end(&t);
  free(velocity);
  free(order);
  return loss / rows;
}

/* Rows around a point of their class. */
static void make_rows(float *x, int *labels) {
  float points[CLASSES][FEATURES];
  for (int c = 0; c < CLASSES; ++c) {
    for (int i = 0; i < FEATURES; ++i) points[c][i] = next_random();
  }
  for (int r = 0; r < ROWS; ++r) {
    labels[r] = r % CLASSES;
    for (int i = 0; i < FEATURES; ++i) x[r * FEATURES + i] = points[r % CLASSES][i] / 2 + 2 * next_random();
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
  static float x[ROWS * FEATURES];
  static int labels[ROWS];
  const int epochs = argc > 1 ? atoi(argv[1]) : 3, threads = argc > 2 ? atoi(argv[2]) : 2;
  const char *file = argc > 4 ? argv[4] : NULL;
  make_rows(x, labels);
  network *net = network_create(argc > 3 ? atoi(argv[3]) : 128);
  for (size_t i = 0; i < net->count; ++i) net->weights[i] = next_random() / sqrtf(FEATURES);
  const double start = now(), loss = network_train(net, x, labels, ROWS, epochs, threads), seconds = now() - start;
  printf("loss %.6f, %.0f rows/s\n", loss, (double)epochs * ROWS / seconds);
  if (file != NULL) {
    FILE *out = fopen(file, "wb");
    if (out == NULL || fwrite(net->weights, sizeof(float), net->count, out) != net->count || fclose(out) != 0) return 1;
  }
  network_free(net);
  return 0;
}
