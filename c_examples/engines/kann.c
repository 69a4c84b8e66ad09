/* A perceptron of KANN's learns handwritten digits with a trainer. Each replica has a copy of the network, whose weights and
 * gradients lie where the trainer has them: nothing is copied, and KANN's threads are not used.
 *
 *   kann FOLDER [REPLICAS [EPOCHS]]
 *
 * FOLDER has the IDX files of c_examples/data/digits. Compile it with kann.c and kautodiff.c of KANN. */
#include <kann.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/trainer.h>

enum { PIXELS = 64, DIGITS = 10, BATCH = 64, HIDDEN = 64 };

typedef struct {
  int64_t count;
  float (*pictures)[PIXELS], (*digits)[DIGITS];
} examples;

typedef struct {
  kann_t **of; /* the network of each replica */
  const examples *data;
} networks;

/* The numbers of an IDX file of bytes, behind its head of `head` bytes. */
static unsigned char *read_bytes(const char *folder, const char *name, long head, long *count) {
  char path[1000];
  FILE *file;
  unsigned char *bytes;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (*count = ftell(file) - head) <= 0) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  bytes = malloc((size_t)*count);
  if (bytes == NULL || fseek(file, head, SEEK_SET) != 0 || fread(bytes, 1, (size_t)*count, file) != (size_t)*count) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fclose(file);
  return bytes;
}

static examples read_examples(const char *folder, const char *pictures, const char *digits) {
  long bytes, count;
  unsigned char *of_pictures = read_bytes(folder, pictures, 16, &bytes), *of_digits = read_bytes(folder, digits, 8, &count);
  examples all = {count, calloc((size_t)count, sizeof *all.pictures), calloc((size_t)count, sizeof *all.digits)};
  if (all.pictures == NULL || all.digits == NULL || bytes != count * PIXELS) exit(1);
  for (long i = 0; i < count; ++i) {
    for (int k = 0; k < PIXELS; ++k) all.pictures[i][k] = (float)of_pictures[i * PIXELS + k] / 16;
    all.digits[i][of_digits[i]] = 1;
  }
  free(of_pictures);
  free(of_digits);
  return all;
}

/* Lets a network read these weights, and add to these gradients. KANN zeroes the gradients before it adds. */
static void use(kann_t *ann, const float *weights, float *gradient) {
  for (int i = 0, at = 0; i < ann->n; ++i) {
    kad_node_t *node = ann->v[i];
    if (!kad_is_var(node)) continue;
    node->x = (float *)weights + at; /* KANN only reads them */
    node->g = gradient != NULL ? gradient + at : NULL;
    at += kad_len(node);
  }
}

/* Runs on all replicas at the same time, on each with its rows of the batch. */
static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
  const networks *all = (const networks *)user_data;
  kann_t *ann = all->of[rows->replica_id];
  float x[BATCH][PIXELS], y[BATCH][DIGITS], *to_x = x[0], *to_y = y[0];
  for (int64_t i = 0; i < rows->count; ++i) {
    memcpy(x[i], all->data->pictures[rows->indices[i]], sizeof x[i]);
    memcpy(y[i], all->data->digits[rows->indices[i]], sizeof y[i]);
  }
  use(ann, weights, gradient);
  kann_set_batch_size(ann, (int)rows->count);
  kann_feed_bind(ann, KANN_F_IN, 0, &to_x);
  kann_feed_bind(ann, KANN_F_TRUTH, 0, &to_y);
  kann_switch(ann, gradient != NULL); /* dropout in training only */
  *loss = (double)kann_cost(ann, 0, gradient != NULL); /* the mean over the rows, as its gradient is */
  return UMBO_OK;
}

int main(int argc, char **argv) {
  const int replicas = argc > 2 ? atoi(argv[2]) : 2, epochs = argc > 3 ? atoi(argv[3]) : 10;
  umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
  umbo_trainer *trainer;
  networks all = {NULL, NULL};
  examples training, test;
  double loss = 0, test_loss = 0;
  kann_t *ann;
  if (argc < 2) return fprintf(stderr, "usage: kann FOLDER [REPLICAS [EPOCHS]]\n"), 1;
  training = read_examples(argv[1], "train-images-idx3-ubyte", "train-labels-idx1-ubyte");
  test = read_examples(argv[1], "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte");
  kann_srand(11);
  ann = kann_new(kann_layer_cost(kad_relu(kann_layer_dense(kann_layer_input(PIXELS), HIDDEN)), DIGITS, KANN_C_CEM), 0);
  UMBO_CHECK(umbo_trainer_create(ann->x, kann_size_var(ann),
                                 &UMBO_OPTIONS(umbo_trainer, .rule = "rmsprop", .learning_rate = 1e-3,
                                               .loss_reduction = UMBO_LOSS_MEAN, .replicas = replicas),
                                 &trainer));
  UMBO_CHECK(umbo_trainer_get_info(trainer, &info));
  all.of = calloc((size_t)info.replica_count, sizeof *all.of);
  if (all.of == NULL) return 1;
  for (int i = 0; i < info.replica_count; ++i) all.of[i] = kann_clone(ann, BATCH);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    all.data = &training;
    UMBO_CHECK(umbo_trainer_epoch(trainer, training.count, BATCH, learn, &all, &loss));
    all.data = &test;
    UMBO_CHECK(umbo_trainer_evaluate(trainer, test.count, BATCH, learn, &all, &test_loss));
    printf("epoch %d: loss %.4f, test loss %.4f\n", epoch + 1, loss, test_loss);
  }
  umbo_trainer_release(trainer);
  for (int i = 0; i < info.replica_count; ++i) {
    use(all.of[i], all.of[i]->x, all.of[i]->g); /* its own memory, which kann_delete frees */
    kann_delete(all.of[i]);
  }
  free(all.of);
  kann_delete(ann);
  free(training.pictures), free(training.digits), free(test.pictures), free(test.digits);
  return 0;
}
