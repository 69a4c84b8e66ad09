#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char options_of_all_programs[] =
    "Trains a perceptron with the layers 256, 128 and 64 on replicas that share their variables.\n"
    "\n"
    "  --data DIR              folder of the IDX files, compressed or not\n"
    "                          (default: /usr/share/datasets/fashion-mnist)\n"
    "  --replicas N            replicas on the CPU (default: 2)\n"
    "  --replicas-in-sync N    replicas of all processes together: the bits of the weights depend on\n"
    "                          them alone, and --replicas says how many compute at a time in each\n"
    "                          process (default: 0, as many as compute)\n"
    "  --epochs E              passes over the training set (default: 10)\n"
    "  --batch-size B          examples in a batch, over all replicas (default: 128)\n"
    "  --seed S                seed of the weights and of the order of the examples (default: 1)\n"
    "  --optimizer RULE        adam or momentum (default: adam)\n"
    "  --learning-rate L       of the first step; it falls to 0 along a line\n"
    "                          (default: 0.001 for adam, 0.05 for momentum)\n"
    "  --workers mpi           train together with the other processes that mpirun has started;\n"
    "                          --replicas are those of each\n"
    "  --json-only             print nothing but the last line, one JSON object\n";

static const char own_options[] =
    "  --checkpoint DIR        save checkpoints to this folder\n"
    "  --save-every N          after each N steps, and at the end (default: 100)\n"
    "  --resume                resume from the newest checkpoint, if there is one\n"
    "  --history FILE          write a line for each epoch, which umbo plot draws; with\n"
    "                          --resume they are added to what is there\n"
    "  --state-bits 8          keep the optimizer's states in 8 bits an element, not 32\n"
    "  --weights bfloat16      keep the weights in bfloat16, rounded stochastically, not float32\n"
    "  --compare               also measure one replica with one BLAS thread and with all of them\n"
    "  --help                  print this\n";

/* Says what is wrong, and ends the program. */
static void refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("03_train_fashion_mnist: ", stderr);
  vfprintf(stderr, format, arguments);
  fputs("\nTry --help.\n", stderr);
  va_end(arguments);
  exit(2);
}

static uint64_t parse_integer(const char *name, const char *text, uint64_t least, uint64_t most) {
  char *end = NULL;
  errno = 0;
  const unsigned long long value = strtoull(text, &end, 10);
  /* strtoull would take a sign or leading blanks. */
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno == ERANGE || value < least || value > most) {
    refuse("%s is '%s'; it must be an integer from %llu to %llu", name, text, (unsigned long long)least,
           (unsigned long long)most);
  }
  return value;
}

static double parse_positive(const char *name, const char *text) {
  char *end = NULL;
  const double value = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(value) || value <= 0.0) {
    refuse("%s is '%s'; it must be a positive number", name, text);
  }
  return value;
}

static update_rule parse_rule(const char *name, const char *text) {
  if (strcmp(text, "adam") == 0) return RULE_ADAM;
  if (strcmp(text, "momentum") != 0) refuse("%s is '%s'; it must be adam or momentum", name, text);
  return RULE_MOMENTUM;
}

/* Handles the options that stand alone; returns 0 for any other. */
static int parse_flag(options *result, const char *name) {
  if (strcmp(name, "--compare") == 0) {
    result->compare = 1;
  } else if (strcmp(name, "--resume") == 0) {
    result->resume = 1;
  } else if (strcmp(name, "--json-only") == 0) {
    result->json_only = 1;
  } else if (strcmp(name, "--help") == 0) {
    printf("usage: 03_train_fashion_mnist [options]\n%s%s", options_of_all_programs, own_options);
    exit(EXIT_SUCCESS);
  } else {
    return 0;
  }
  return 1;
}

static int takes_value(const char *name) {
  static const char *const names[] = {"--data", "--replicas",  "--replicas-in-sync", "--epochs", "--batch-size",
                                      "--seed", "--optimizer", "--learning-rate",
                                      "--checkpoint", "--save-every", "--history", "--workers",
                                      "--state-bits", "--weights"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    if (strcmp(name, names[i]) == 0) return 1;
  }
  return 0;
}

static void parse_value(options *result, const char *name, const char *text) {
  if (strcmp(name, "--data") == 0) {
    result->data = text;
  } else if (strcmp(name, "--replicas") == 0) {
    result->replicas = (int)parse_integer(name, text, 1, 1024);
  } else if (strcmp(name, "--replicas-in-sync") == 0) {
    result->replicas_in_sync = (int)parse_integer(name, text, 0, 1024);
  } else if (strcmp(name, "--epochs") == 0) {
    result->epochs = (int)parse_integer(name, text, 1, 100000);
  } else if (strcmp(name, "--batch-size") == 0) {
    result->batch_size = (int64_t)parse_integer(name, text, 1, 1000000);
  } else if (strcmp(name, "--seed") == 0) {
    result->seed = parse_integer(name, text, 0, UINT64_MAX);
  } else if (strcmp(name, "--optimizer") == 0) {
    result->rule = parse_rule(name, text);
  } else if (strcmp(name, "--checkpoint") == 0) {
    result->checkpoint = text;
  } else if (strcmp(name, "--history") == 0) {
    result->history = text;
  } else if (strcmp(name, "--workers") == 0) {
    if (strcmp(text, "mpi") != 0) refuse("--workers is '%s'; it must be mpi", text);
    result->workers = 1;
  } else if (strcmp(name, "--state-bits") == 0) {
    if (strcmp(text, "8") != 0) refuse("--state-bits is '%s'; it must be 8", text);
    result->state_bits = 8;
  } else if (strcmp(name, "--weights") == 0) {
    if (strcmp(text, "bfloat16") != 0) refuse("--weights is '%s'; it must be bfloat16", text);
    result->rounds_weights = 1;
  } else if (strcmp(name, "--save-every") == 0) {
    result->save_every = (int64_t)parse_integer(name, text, 1, INT64_MAX);
  } else {
    result->learning_rate = parse_positive(name, text);
  }
}

options options_parse(int argc, char **argv) {
  options result = {
      .data = "/usr/share/datasets/fashion-mnist",
      .replicas = 2,
      .epochs = 10,
      .batch_size = 128,
      .seed = 1,
      .rule = RULE_ADAM,
      .save_every = 100,
  };
  for (int i = 1; i < argc; ++i) {
    const char *name = argv[i];
    if (parse_flag(&result, name)) continue;
    if (!takes_value(name)) refuse("'%s' is not an option of this program", name);
    if (++i == argc) refuse("%s needs a value", name);
    parse_value(&result, name, argv[i]);
  }
  if (result.workers && result.compare) refuse("--compare measures one process; leave out --workers");
  if (result.replicas_in_sync && result.compare) {
    refuse("--compare measures one replica; leave out --replicas-in-sync");
  }
  if (result.resume && result.checkpoint == NULL) refuse("--resume needs --checkpoint");
  if (result.learning_rate == 0.0) result.learning_rate = result.rule == RULE_ADAM ? 0.001 : 0.05;
  return result;
}
