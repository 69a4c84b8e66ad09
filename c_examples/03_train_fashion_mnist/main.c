/* Trains a multilayer perceptron on Fashion-MNIST, on several replicas whose variables live in one place.
 *
 *   options   the command line            data      the pictures, as a distributed dataset
 *   mlp       the network itself          trainer   the network under a strategy: start reading here
 *   matrix    BLAS, or plain C            progress  what the user sees
 *   compare   N replicas against one        saving    what a training is resumed from
 *   history   a line for each epoch, for umbo plot
 *   workers   several processes that train as one
 */
#include "compare.h"
#include "data.h"
#include "history.h"
#include "matrix.h"
#include "options.h"
#include "progress.h"
#include "saving.h"
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
  double seconds; /* of training, without evaluation */
  double examples;
  double test_accuracy;
  int64_t resumed_at; /* after how many steps; 0: from the beginning */
  double own_rate;    /* of this process: examples per second */
  uint64_t weights;   /* their fingerprint at the end */
} outcome;

/* The learning rate falls to 0 along a line over the whole training. */
static double rate_at(const options *choices, double share_done) { return choices->learning_rate * (1.0 - share_done); }

static outcome train(trainer *t, const picture_data *data, const options *choices, const workers *together) {
  outcome result = {0.0, 0.0, 0.0, 0, 0.0, 0};
  place where = {.epoch = 1};
  const saving saved = saving_begin(t, choices, together, &where);
  result.resumed_at = where.steps;
  double trained = 0.0; /* examples, since this process began */
  FILE *history = history_open(together->rank == 0 ? choices->history : NULL, choices->resume);
  progress shown = progress_begin(choices->json_only, choices->epochs, data->training_examples);
  const double all = (double)data->training_examples * choices->epochs;
  for (; where.epoch <= choices->epochs; ++where.epoch) {
    const double before = where.total.examples, start = progress_clock();
    while (trainer_step(t, rate_at(choices, (where.examples + where.total.examples) / all), &where.total)) {
      ++where.steps;
      saving_step(&saved, &where, 0);
      progress_step(&shown, (int)where.epoch, &where.total, result.seconds + progress_clock() - start);
    }
    const double seconds = progress_clock() - start;
    result.seconds += seconds;
    trained += where.total.examples - before;
    const tally test = trainer_evaluate(t);
    result.test_accuracy = test.correct / test.examples;
    progress_epoch(&shown, (int)where.epoch, &where.total, &test, seconds);
    history_epoch(history, (int)where.epoch, &where.total, &test, seconds);
    where.examples += where.total.examples;
    where.total = (tally){0.0, 0.0, 0.0};
  }
  saving_step(&saved, &where, 1);
  saving_end(&saved);
  if (history != NULL) fclose(history);
  result.examples = trained;
  result.own_rate = trainer_own_examples(t) / result.seconds;
  result.weights = trainer_fingerprint(t);
  return result;
}

static void describe(const options *choices, const picture_data *data, const trainer *t, const workers *together,
                     int blas_threads) {
  if (choices->json_only) return;
  if (together->communicator != NULL) printf("%lld processes, each with:\n", (long long)together->size);
  printf("%.*s: %lld examples, %lld parameters, %d replica%s, products by %s with %d thread%s each\n", data->name_length,
         data->name, (long long)data->training_examples, (long long)mlp_parameter_count(&t->shape), choices->replicas,
         choices->replicas == 1 ? "" : "s", matrix_library(), blas_threads, blas_threads == 1 ? "" : "s");
}

static void print_json_string(const char *text, int length) {
  putchar('"');
  for (int i = 0; i < length; ++i) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') {
      printf("\\%c", c);
    } else if (c < 0x20) {
      printf("\\u%04x", c);
    } else {
      putchar(c);
    }
  }
  putchar('"');
}

static void print_json(const options *choices, const picture_data *data, const outcome *result, const workers *together,
                       const comparison *compared) {
  double *rates = malloc((size_t)together->size * sizeof(*rates));
  if (rates == NULL) abort();
  workers_gather(together, result->own_rate, rates);
  if (together->rank > 0) {
    free(rates);
    return;
  }
  fputs("{\"dataset\": ", stdout);
  print_json_string(data->name, data->name_length);
  printf(", \"replicas\": %d, \"epochs\": %d, \"test_accuracy\": %.4f, \"samples_per_second\": %.1f, \"seconds\": %.3f",
         choices->replicas, choices->epochs, result->test_accuracy, result->examples / result->seconds,
         result->seconds);
  printf(", \"replicas_in_sync\": %d, \"weights\": \"%016llx\"", choices->replicas_in_sync,
         (unsigned long long)result->weights);
  if (choices->resume) printf(", \"resumed_at\": %lld", (long long)result->resumed_at);
  if (compared != NULL) {
    const contestant_result *baseline = &compared->of[compared->baseline];
    printf(
        ", \"compared_samples_per_second\": %.1f, \"baseline\": {\"replicas\": 1, \"blas_threads\": %d, "
        "\"samples_per_second\": %.1f}, \"speedup\": %.3f, \"speedup_quartiles\": [%.3f, %.3f], "
        "\"machine_was_busy\": %s",
        compared->of[0].samples_per_second, baseline->blas_threads, baseline->samples_per_second, baseline->ratio,
        baseline->ratio_low, baseline->ratio_high, compared->busy ? "true" : "false");
  }
  if (together->communicator != NULL) {
    printf(", \"workers\": %lld, \"worker_samples_per_second\": [", (long long)together->size);
    for (int64_t rank = 0; rank < together->size; ++rank) printf("%s%.1f", rank > 0 ? ", " : "", rates[rank]);
    putchar(']');
  }
  puts("}");
  free(rates);
}

int main(int argc, char **argv) {
  options choices = options_parse(argc, argv);
  const workers together = workers_join(&choices);
  picture_data data = data_open(choices.data);

  /* Several replicas already use several processors, and so do several processes of one machine; one replica alone may
   * leave that to BLAS, whose bits then depend on how many threads there are. */
  const int parts = choices.replicas * (int)together.on_this_machine;
  const int blas_threads = matrix_set_threads(parts > 1 || choices.replicas_in_sync > 0 ? 1 : matrix_most_threads());
  trainer t;
  trainer_create(&t, &data, &choices, &together, choices.replicas, choices.replicas == 1);
  describe(&choices, &data, &t, &together, blas_threads);
  const outcome result = train(&t, &data, &choices, &together);
  trainer_destroy(&t);

  if (choices.compare) {
    if (!choices.json_only) puts("now the speed compared with one replica, alternately:");
    fflush(stdout);
    const comparison compared = compare_with_one_replica(&data, &choices);
    if (!choices.json_only) comparison_print(&compared);
    print_json(&choices, &data, &result, &together, &compared);
  } else {
    print_json(&choices, &data, &result, &together, NULL);
  }
  data_close(&data);
  workers_leave(&together);
  return EXIT_SUCCESS;
}
