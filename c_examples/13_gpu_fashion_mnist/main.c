/* Trains the perceptron of 03_train_fashion_mnist on GPUs, with an own step: matrix products by cuBLAS, everything else by
 * own kernels, both queued on the stream of the replica.
 *
 *   13_gpu_fashion_mnist [--data DIR] [--epochs N] [--batch-size B] [--seed S] [--tf32] [DEVICE...]
 *
 *   learner   the network under a strategy: start reading here
 *   gpu_mlp   the network on a GPU          gpu       the driver and cuBLAS, found at run time
 *   kernels   what cuBLAS does not compute   data, mlp, matrix   those of 03_train_fashion_mnist
 *
 * A step returns before any of its work is done, and the run waits. The loss and the accuracy are added up on the GPU and
 * read at the end of an epoch. Devices that are not named are all GPUs, or CPU:0 where there is no GPU or no cuBLAS; replicas
 * on CPUs run 03's network. */
#include "data.h"
#include "gpu.h"
#include "learner.h"
#include "matrix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: 13_gpu_fashion_mnist [options] [DEVICE...]\n"
    "Trains a perceptron with the layers 256, 128 and 64, a replica on each device.\n"
    "\n"
    "  --data DIR        folder of the IDX files, compressed or not\n"
    "                    (default: /usr/share/datasets/fashion-mnist)\n"
    "  --epochs N        passes over the training set (default: 5)\n"
    "  --batch-size B    examples in a batch, over all replicas (default: 1024)\n"
    "  --seed S          seed of the weights and of the order of the examples (default: 1)\n"
    "  --tf32            products on tensor cores, with factors of 10 bits after the point\n"
    "                    (default: float32 throughout)\n"
    "  --help            print this\n"
    "  DEVICE            such as GPU:0 or CPU:0 (default: all GPUs; CPU:0 without a GPU or cuBLAS)\n";

enum { MOST_DEVICES = LEARNER_MOST_REPLICAS };

typedef struct {
  const char *data;
  int epochs;
  int64_t batch_size;
  uint64_t seed;
  int tf32;
  int64_t device_count;
  const char *devices[MOST_DEVICES];
} options;

static void refuse(const char *what, const char *text) {
  fprintf(stderr, "13_gpu_fashion_mnist: %s: '%s'\nTry --help.\n", what, text);
  exit(2);
}

static long long parse_integer(const char *name, const char *text, long long least, long long most) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno == ERANGE || value < least || value > most) {
    char what[96];
    snprintf(what, sizeof(what), "%s must be an integer from %lld to %lld", name, least, most);
    refuse(what, text);
  }
  return value;
}

static void parse_value(options *chosen, const char *name, const char *text) {
  if (text == NULL) refuse("a value must follow", name);
  if (strcmp(name, "--data") == 0) {
    chosen->data = text;
  } else if (strcmp(name, "--epochs") == 0) {
    chosen->epochs = (int)parse_integer(name, text, 1, 100000);
  } else if (strcmp(name, "--batch-size") == 0) {
    chosen->batch_size = parse_integer(name, text, 1, 1000000);
  } else if (strcmp(name, "--seed") == 0) {
    chosen->seed = (uint64_t)parse_integer(name, text, 0, 1000000000);
  } else {
    refuse("this program has no such option", name);
  }
}

static options parse(int argc, char **argv) {
  options chosen = {.data = "/usr/share/datasets/fashion-mnist", .epochs = 5, .batch_size = 1024, .seed = 1};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      exit(EXIT_SUCCESS);
    } else if (strcmp(argv[i], "--tf32") == 0) {
      chosen.tf32 = 1;
    } else if (strncmp(argv[i], "--", 2) == 0) {
      parse_value(&chosen, argv[i], argv[i + 1]);
      ++i;
    } else {
      if (chosen.device_count == MOST_DEVICES) refuse("too many devices", argv[i]);
      chosen.devices[chosen.device_count++] = argv[i];
    }
  }
  return chosen;
}

static int names_a_gpu(const options *chosen) {
  for (int64_t i = 0; i < chosen->device_count; ++i) {
    umbo_device_info named = UMBO_DEVICE_INFO_INIT;
    UMBO_CHECK(umbo_device_get_info(chosen->devices[i], &named));
    if (named.device.type == UMBO_DEVICE_GPU) return 1;
  }
  return 0;
}

/* Leaves the devices open where GPUs can be used, which are then all of them. */
static void choose_devices(options *chosen) {
  umbo_device_info gpus = UMBO_DEVICE_INFO_INIT;
  const int named = chosen->device_count > 0;
  if (named && !names_a_gpu(chosen)) return;
  const char *missing = gpu_find();
  if (missing == NULL) {
    UMBO_CHECK(umbo_device_get_info("GPU:0", &gpus));
    if (named || gpus.logical_count > 0) return;
    missing = "the CUDA driver shows no GPU";
  }
  fprintf(stderr, "13_gpu_fashion_mnist: %s\n", missing);
  if (named) exit(EXIT_FAILURE);
  chosen->devices[chosen->device_count++] = "CPU:0";
}

static void describe(const learner *l, const picture_data *data) {
  printf("%.*s: %lld examples, %lld parameters\n", data->name_length, data->name, (long long)data->training_examples,
         (long long)mlp_parameter_count(&l->shape));
  for (int i = 0; i < l->replicas; ++i) {
    const int version = l->gpus[i].blas_version;
    if (l->gpus[i].blas != NULL) {
      printf("replica %d on %s: products by cuBLAS %d.%d.%d (%s), %s\n", i, learner_device(l, i), version / 10000,
             version / 100 % 100, version % 100, gpu_blas_file(), l->tf32 ? "TF32" : "float32 throughout");
    } else {
      printf("replica %d on %s: products by %s\n", i, learner_device(l, i), matrix_library());
    }
  }
  fflush(stdout);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  options chosen = parse(argc, argv);
  picture_data data = data_open(chosen.data);
  learner l;
  tally training = {0.0, 0.0, 0.0}, test = {0.0, 0.0, 0.0};
  double seconds = 0.0, examples = 0.0;
  choose_devices(&chosen);
  learner_create(&l, &data, chosen.device_count, chosen.device_count > 0 ? chosen.devices : NULL, chosen.batch_size,
                 chosen.seed, chosen.tf32);
  /* One replica on a CPU may leave all processors to BLAS. */
  matrix_set_threads(l.replicas == 1 ? matrix_most_threads() : 1);
  describe(&l, &data);
  for (int epoch = 1; epoch <= chosen.epochs; ++epoch) {
    const double start = seconds_now();
    training = learner_train(&l, 0.001 * (1.0 - (double)(epoch - 1) / chosen.epochs));
    const double taken = seconds_now() - start;
    seconds += taken;
    examples += training.examples;
    test = learner_evaluate(&l);
    printf("epoch %d/%d: loss %.6f, accuracy %.4f, test loss %.6f, test accuracy %.4f, %.0f samples/s\n", epoch,
           chosen.epochs, training.loss / training.examples, training.right / training.examples,
           test.loss / test.examples, test.right / test.examples, training.examples / taken);
    fflush(stdout);
  }
  printf("{\"replicas\": %d, \"gpus\": %d, \"epochs\": %d, \"loss\": %.6f, \"test_loss\": %.6f, \"test_accuracy\": %.4f, "
         "\"samples_per_second\": %.1f, \"seconds\": %.3f}\n",
         l.replicas, l.on_gpus, chosen.epochs, training.loss / training.examples, test.loss / test.examples,
         test.right / test.examples, examples / seconds, seconds);
  learner_destroy(&l);
  data_close(&data);
  return EXIT_SUCCESS;
}
