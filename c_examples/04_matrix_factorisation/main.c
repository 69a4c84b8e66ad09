/* Learns to predict ratings, such as those of MovieLens-100k, with tables of which each step touches some rows.
 *
 *   ratings      the data: a file, or generated        recommender  the model under a strategy: start reading here
 */
#include "ratings.h"
#include "recommender.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: 04_matrix_factorisation [options]\n"
    "Predicts ratings of items by users from their factors and biases, on replicas that share these tables.\n"
    "\n"
    "  --data FILE             ratings, one a line: user, item, rating, with tabs between them\n"
    "                          (default: a set that the program generates)\n"
    "  --replicas N            replicas on the CPU (default: 2)\n"
    "  --epochs E              passes over the training set (default: 30)\n"
    "  --rank K                factors of a user and of an item (default: 32)\n"
    "  --batch-size B          ratings in a batch, over all replicas (default: 1000)\n"
    "  --seed S                seed of the test set, the factors and the order of the ratings (default: 1)\n"
    "  --learning-rate L       of the first step; it falls to 0 along a line (default: 0.1)\n"
    "  --regularisation R      weight of the L2 penalty (default: 0.1)\n"
    "  --json-only             print nothing but the last line, one JSON object\n"
    "  --help                  print this\n";

typedef struct {
  settings chosen;
  const char *data; /* NULL: generate */
  int json_only;
} options;

static void refuse(const char *option, const char *problem) {
  fprintf(stderr, "04_matrix_factorisation: %s %s\nTry --help.\n", option, problem);
  exit(2);
}

/* A number from least to most; an integer if is_integer is 1. */
static double parse_number(const char *option, const char *text, double least, double most, int is_integer) {
  char *end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= least && value <= most) || (is_integer && value != floor(value))) {
    char problem[160];
    snprintf(problem, sizeof(problem), "is '%.40s'; it must be %s from %g to %g", text,
             is_integer ? "an integer" : "a number", least, most);
    refuse(option, problem);
  }
  return value;
}

static void parse_value(options *result, const char *name, const char *text) {
  settings *chosen = &result->chosen;
  if (strcmp(name, "--data") == 0) {
    result->data = text;
  } else if (strcmp(name, "--replicas") == 0) {
    chosen->replicas = (int)parse_number(name, text, 1, 1024, 1);
  } else if (strcmp(name, "--epochs") == 0) {
    chosen->epochs = (int)parse_number(name, text, 1, 100000, 1);
  } else if (strcmp(name, "--rank") == 0) {
    chosen->rank = (int)parse_number(name, text, 1, 4096, 1);
  } else if (strcmp(name, "--batch-size") == 0) {
    chosen->batch_size = (int64_t)parse_number(name, text, 1, 1e6, 1);
  } else if (strcmp(name, "--seed") == 0) {
    chosen->seed = (uint64_t)parse_number(name, text, 0, 9007199254740992.0, 1);
  } else if (strcmp(name, "--learning-rate") == 0) {
    chosen->learning_rate = parse_number(name, text, 1e-9, 1e9, 0);
  } else {
    chosen->regularisation = parse_number(name, text, 0, 1e9, 0);
  }
}

static options parse_options(int argc, char **argv) {
  static const char *const with_value[] = {"--data",       "--replicas", "--epochs",        "--rank",
                                           "--batch-size", "--seed",     "--learning-rate", "--regularisation"};
  options result = {.chosen = {.replicas = 2,
                               .rank = 32,
                               .epochs = 30,
                               .batch_size = 1000,
                               .seed = 1,
                               .learning_rate = 0.1,
                               .regularisation = 0.1}};
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    int takes_value = 0;
    for (size_t j = 0; j < sizeof(with_value) / sizeof(with_value[0]); ++j) {
      takes_value |= strcmp(name, with_value[j]) == 0;
    }
    if (strcmp(name, "--help") == 0) {
      fputs(usage, stdout);
      exit(EXIT_SUCCESS);
    } else if (strcmp(name, "--json-only") == 0) {
      result.json_only = 1;
    } else if (!takes_value) {
      refuse(name, "is not an option of this program");
    } else if (i + 1 == argc) {
      refuse(name, "needs a value");
    } else {
      parse_value(&result, name, argv[++i]);
    }
  }
  return result;
}

static double clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double rmse_of(tally total) { return sqrt(total.squared_errors / total.examples); }

/* JSON has no number for what is infinite or not a number, such as an error in relation to one of 0. */
static void print_json_number(const char *field, double value, int decimals) {
  printf(", \"%s\": ", field);
  if (isfinite(value)) {
    printf("%.*f", decimals, value);
  } else {
    fputs("null", stdout);
  }
}

static void print_json(const options *given, const rating_data *data, double rmse, double examples, double seconds) {
  fputs("{\"dataset\": \"", stdout);
  for (const char *c = data->name; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') putchar('\\');
    if ((unsigned char)*c >= 0x20) putchar(*c);
  }
  printf("\", \"generated\": %s, \"replicas\": %d, \"epochs\": %d", data->is_generated ? "true" : "false",
         given->chosen.replicas, given->chosen.epochs);
  print_json_number("test_rmse", rmse, 4);
  print_json_number("rmse_of_mean", data->rmse_of_mean, 4);
  print_json_number("relative_rmse", rmse / data->rmse_of_mean, 4);
  print_json_number("samples_per_second", examples / seconds, 1);
  print_json_number("seconds", seconds, 3);
  puts("}");
}

int main(int argc, char **argv) {
  const options given = parse_options(argc, argv);
  const settings *chosen = &given.chosen;
  rating_data data = given.data == NULL ? ratings_generate(chosen->seed) : ratings_read(given.data, chosen->seed);
  recommender r;
  recommender_create(&r, &data, chosen);
  if (!given.json_only) {
    if (data.is_generated) {
      puts("No --data: these ratings are GENERATED by this program. Nobody gave them.");
    }
    printf("%s: %lld ratings to learn from, %lld to test, %lld users, %lld items, rank %d, %d replicas\n", data.name,
           (long long)data.training_examples, (long long)data.test_examples, (long long)data.users,
           (long long)data.items, chosen->rank, chosen->replicas);
  }
  const double all = (double)data.training_examples * chosen->epochs;
  double examples = 0.0, seconds = 0.0, test_rmse = 0.0;
  for (int epoch = 1; epoch <= chosen->epochs; ++epoch) {
    tally total = {0.0, 0.0};
    const double start = clock_seconds();
    while (recommender_step(&r, chosen->learning_rate * (1.0 - (examples + total.examples) / all), &total)) continue;
    seconds += clock_seconds() - start;
    examples += total.examples;
    test_rmse = rmse_of(recommender_evaluate(&r));
    if (!given.json_only) {
      printf("epoch %d/%d: RMSE %.4f, test RMSE %.4f\n", epoch, chosen->epochs, rmse_of(total), test_rmse);
      fflush(stdout);
    }
  }
  print_json(&given, &data, test_rmse, examples, seconds);
  recommender_destroy(&r);
  ratings_close(&data);
  if (!isfinite(test_rmse)) {
    fflush(stdout);
    fputs("04_matrix_factorisation: the training has diverged; a lower --learning-rate may help.\n", stderr);
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
