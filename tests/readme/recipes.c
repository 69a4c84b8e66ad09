/* Runs the recipes of docs/recipes.md, which readme.recipes extracts into files of these names. Recipes are functions of a
 * program; this is the program around them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef NDEBUG
#include <assert.h>

#include <umbo/expert.h>

#include "accumulate.c"
#include "augment.c"
#include "average.c"
#include "ctrl_c.c"
#include "dropout.c"
#include "early_stop.c"
#include "evaluate.c"
#include "files.c"
#include "fine_tune.c"
#include "layers.c"
#include "loader.c"
#include "metrics.c"
#include "resume.c"
#include "schedule.c"
#include "settings.c"
#include "several_outputs.c"
#include "stop.c"
#include "vocabulary.c"

enum { EPOCHS_OF_FIRST_PROGRAM = 5, CLASSES = 3 };

/* What a program makes anew each time that it is started. */
typedef struct {
  umbo_strategy *strategy;
  umbo_variable *weights; /* 3 */
  umbo_optimizer *optimizer;
  umbo_gradients *gradients;
  umbo_metrics *metrics;
  umbo_iterator *batches;
} program;

static umbo_iterator *distributed(umbo_strategy *strategy, umbo_dataset *dataset) {
  umbo_distributed_dataset *split = NULL;
  umbo_iterator *iterator = NULL;
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &split));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(split, &iterator));
  umbo_distributed_dataset_release(split);
  umbo_dataset_release(dataset);
  return iterator;
}

static program start(void) {
  program p;
  umbo_dataset *dataset = NULL;
  const int64_t shape[] = {3};
  UMBO_CHECK(umbo_strategy_create_cpu(2, &p.strategy));
  UMBO_CHECK(umbo_variable_create_drawn(p.strategy, "weights", UMBO_DTYPE_FLOAT32, 1, shape, UMBO_INITIAL_ZEROS, 0,
                                        &p.weights));
  UMBO_CHECK(umbo_optimizer_create_sgd(p.strategy, NULL, &p.optimizer));
  UMBO_CHECK(accumulate(p.strategy, p.weights, &p.gradients));
  UMBO_CHECK(make_metrics(p.strategy, CLASSES, &p.metrics));
  UMBO_CHECK(make_loader(&dataset));
  p.batches = distributed(p.strategy, dataset);
  return p;
}

static void end(program *p) {
  umbo_iterator_release(p->batches);
  umbo_metrics_release(p->metrics);
  umbo_gradients_release(p->gradients);
  umbo_optimizer_release(p->optimizer);
  umbo_variable_release(p->weights);
  umbo_strategy_release(p->strategy);
}

/* Every example has a gradient of 1 for each weight. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *data, umbo_value **result) {
  const program *p = data;
  umbo_view rows, gradient;
  (void)result;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_NONE, &rows));
  UMBO_TRY(umbo_gradients_view(p->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
  for (int i = 0; i < 3; ++i) ((float *)gradient.mutable_data)[i] += (float)rows.shape[0];
  return umbo_gradients_submit(p->gradients, ctx);
}

/* Row i is an example of class i mod 3, which is predicted for all examples of class 0 and 1 and for none of class 2. */
static umbo_status predict(umbo_replica_context *ctx, const umbo_value *batch, void *data, umbo_value **result) {
  const program *p = data;
  umbo_view rows;
  float scores[ROWS * CLASSES] = {0};
  int64_t labels[ROWS];
  (void)result;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  const int64_t shape[] = {rows.shape[0], CLASSES};
  for (int64_t i = 0; i < rows.shape[0]; ++i) {
    labels[i] = (int64_t)((const float *)rows.data)[i * rows.strides[0]] % CLASSES;
    scores[i * CLASSES + (labels[i] == 2 ? 0 : labels[i])] = 1.0f;
  }
  const umbo_view predicted = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, shape, scores);
  const umbo_view right = umbo_view_of_memory(UMBO_DTYPE_INT64, 1, shape, labels);
  return measure(p->metrics, ctx, &predicted, &right);
}

static float first_weight(const program *p) {
  float weights[3];
  UMBO_CHECK(umbo_variable_download(p->weights, weights, sizeof(weights)));
  return weights[0];
}

static void evaluates_and_measures(program *p) {
  double loss = 0;
  umbo_metric_result accuracy = UMBO_METRIC_RESULT_INIT;
  /* The weights are zero and row i is {i, i + 1, i + 2}: half the mean of (i + 1)^2. */
  model of_line = {p->weights, NULL};
  UMBO_CHECK(evaluate(p->strategy, p->batches, &of_line, &loss));
  assert(loss > 1691.74 && loss < 1691.76);
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, NULL, NULL, predict, p,
                              &UMBO_OPTIONS(umbo_train_epoch, .metrics = p->metrics), NULL));
  UMBO_CHECK(umbo_metrics_result(p->metrics, "accuracy", &accuracy));
  assert(accuracy.weight == (double)ROWS && accuracy.sum == 67);
  UMBO_CHECK(print_metrics(p->metrics, CLASSES));
}

/* A pass has seven batches: one update with the gradients of four, and one with the rest. */
static void accumulates(program *p) {
  umbo_value *batch = NULL;
  umbo_optimizer_info info = UMBO_OPTIMIZER_INFO_INIT;
  for (int run = 1; run <= 7; ++run) {
    UMBO_CHECK(umbo_iterator_next(p->batches, &batch));
    UMBO_CHECK(umbo_strategy_run(p->strategy, step, batch, p, NULL, NULL));
    umbo_value_release(batch);
    UMBO_CHECK(apply(p->optimizer, p->gradients, run == 7));
  }
  UMBO_CHECK(umbo_iterator_reset(p->batches));
  UMBO_CHECK(umbo_optimizer_get_info(p->optimizer, &info));
  assert(info.iterations == 2);
}

static void returns_several_things(program *p) {
  umbo_value *both = NULL, *half = NULL, *of_second = NULL;
  umbo_view view;
  UMBO_CHECK(umbo_strategy_run(p->strategy, two_results, NULL, NULL, NULL, &both));
  UMBO_CHECK(umbo_value_field(both, "half", &half));
  UMBO_CHECK(umbo_value_item(half, 1, &of_second));
  UMBO_CHECK(umbo_value_view(of_second, NULL, UMBO_DTYPE_FLOAT32, &view));
  assert(*(const float *)view.data == 0.5f);
  umbo_value_release(of_second);
  umbo_value_release(half);
  umbo_value_release(both);
}

static void is_stopped(program *p) {
  umbo_cancellation *token = NULL;
  UMBO_CHECK(umbo_cancellation_create(&token));
  UMBO_CHECK(umbo_cancellation_cancel(token));
  const umbo_status status = train_until_cancelled(p->strategy, p->batches, p->optimizer, p->gradients, step, p, token);
  assert(status == UMBO_STATUS_CANCELLED);
  umbo_cancellation_release(token);
}

/* Ctrl-C, in the first step of an epoch. */
static umbo_status step_and_interrupt(umbo_replica_context *ctx, const umbo_value *batch, void *data, umbo_value **result) {
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  if (here.replica_id == 0) raise(SIGINT); /* on the thread that trains */
  return step(ctx, batch, data, result);
}

static void is_interrupted(program *p) {
  umbo_checkpoint *checkpoint = NULL;
  umbo_checkpoint_manager *manager = NULL;
  umbo_train_epoch_report rest = UMBO_TRAIN_EPOCH_REPORT_INIT;
  int64_t saved = UMBO_NONE;
  UMBO_CHECK(umbo_checkpoint_create(p->strategy, &checkpoint));
  UMBO_CHECK(umbo_checkpoint_add_variable(checkpoint, "weights", p->weights));
  UMBO_CHECK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", p->optimizer));
  UMBO_CHECK(umbo_checkpoint_add_gradients(checkpoint, "gradients", p->gradients));
  UMBO_CHECK(umbo_checkpoint_add_iterator(checkpoint, "batches", p->batches));
  UMBO_CHECK(umbo_checkpoint_manager_create(checkpoint, "interrupted", NULL, &manager));
  UMBO_CHECK(train_until_interrupted(p->strategy, p->batches, p->optimizer, p->gradients, step_and_interrupt, p, manager, 7));
  UMBO_CHECK(umbo_checkpoint_manager_latest(manager, &saved));
  assert(interrupted && saved == 7);
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, p->optimizer, p->gradients, step, p, NULL, &rest));
  assert(rest.step_count == 6); /* of seven batches */
  umbo_checkpoint_manager_release(manager);
  umbo_checkpoint_release(checkpoint);
}

/* Checks the first element of a dataset, which has these fields, and releases the dataset. */
static void begins_with(umbo_dataset *dataset, umbo_dtype dtype, int64_t pixels, double label) {
  umbo_iterator *iterator = NULL;
  umbo_value *first = NULL;
  umbo_view x, y;
  UMBO_CHECK(umbo_iterator_from_dataset(dataset, &iterator));
  UMBO_CHECK(umbo_iterator_next(iterator, &first));
  UMBO_CHECK(umbo_value_view(first, "x", dtype, &x));
  UMBO_CHECK(umbo_value_view(first, "y", dtype, &y));
  int64_t count = 1;
  for (int i = 0; i < x.ndim; ++i) count *= x.shape[i];
  assert(count == pixels && y.ndim == 0);
  assert((dtype == UMBO_DTYPE_UINT8 ? *(const uint8_t *)y.data : (double)*(const float *)y.data) == label);
  umbo_value_release(first);
  umbo_iterator_release(iterator);
  umbo_dataset_release(dataset);
}

static void write_file(const char *path, const unsigned char *bytes, size_t count) {
  FILE *file = fopen(path, "wb");
  assert(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* Files as MNIST has them, of two images of 1 x 3 pixels, and one of NumPy's, of one row. */
static void reads_files(void) {
  const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
  const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 8};
  const char *const names[] = {"x", "y"};
  const int64_t shape[] = {1, 4};
  const float x[] = {1, 2, 3, 4}, y[] = {5};
  umbo_dataset *dataset = NULL;
  umbo_value *values[2] = {NULL, NULL};
  umbo_tensor *tensors[2] = {NULL, NULL};
  write_file("images", images, sizeof(images));
  write_file("labels", labels, sizeof(labels));
  UMBO_CHECK(read_idx("images", "labels", &dataset));
  begins_with(dataset, UMBO_DTYPE_UINT8, 3, 7);
  UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 2, shape, x, NULL, &values[0]));
  UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 1, shape, y, NULL, &values[1]));
  for (int i = 0; i < 2; ++i) {
    UMBO_CHECK(umbo_value_tensor(values[i], &tensors[i]));
    umbo_value_release(values[i]);
  }
  UMBO_CHECK(umbo_tensor_save_all(2, names, tensors, "data.npz"));
  UMBO_CHECK(read_npz("data.npz", &dataset));
  begins_with(dataset, UMBO_DTYPE_FLOAT32, 4, 5);
  for (int i = 0; i < 2; ++i) umbo_tensor_release(tensors[i]);
}

/* Matrices are drawn, and vectors begin at zero. */
static void draws_layers(program *p) {
  umbo_variable *layers[LAYERS];
  umbo_gradients *gradients = NULL;
  umbo_view views[LAYERS];
  UMBO_CHECK(make_layers(p->strategy, 7, 5, CLASSES, layers, &gradients));
  UMBO_CHECK(umbo_variable_views(LAYERS, layers, NULL, views));
  for (int i = 0; i < LAYERS; ++i) {
    const float first = *(const float *)views[i].data;
    assert(i % 2 == 0 ? first != 0.0f && views[i].ndim == 2 : first == 0.0f && views[i].ndim == 1);
    umbo_variable_release(layers[i]);
  }
  assert(views[W1].shape[1] == 7 && views[W2].shape[0] == CLASSES && views[B1].shape[0] == 5);
  umbo_gradients_release(gradients);
}

/* An image is mirrored or it is not, and keeps its label. */
static void augments(void) {
  enum { IMAGES = 40 };
  float images[IMAGES][HEIGHT][WIDTH];
  int64_t labels[IMAGES];
  int mirrored = 0, seen = 0;
  umbo_dataset *dataset = NULL;
  umbo_iterator *iterator = NULL;
  umbo_value *batch = NULL;
  for (int i = 0; i < IMAGES; ++i) {
    labels[i] = i;
    for (int j = 0; j < HEIGHT * WIDTH; ++j) images[i][j / WIDTH][j % WIDTH] = (float)(10 * i + j);
  }
  UMBO_CHECK(make_augmented(IMAGES, &images[0][0][0], labels, &dataset));
  UMBO_CHECK(umbo_iterator_from_dataset(dataset, &iterator));
  for (;;) {
    UMBO_CHECK(umbo_iterator_next(iterator, &batch));
    if (batch == NULL) break;
    umbo_view x, label;
    UMBO_CHECK(umbo_value_view(batch, "x", UMBO_DTYPE_FLOAT32, &x));
    UMBO_CHECK(umbo_value_view(batch, "label", UMBO_DTYPE_INT64, &label));
    for (int64_t i = 0; i < x.shape[0]; ++i, ++seen) {
      const float *pixels = (const float *)x.data + i * x.strides[0];
      const float first = (float)(10 * ((const int64_t *)label.data)[i]);
      const int turned = pixels[0] != first;
      assert(pixels[turned ? WIDTH - 1 : 0] == first && pixels[turned ? WIDTH : 2 * WIDTH - 1] == first + 5);
      mirrored += turned;
    }
    umbo_value_release(batch);
  }
  assert(seen == IMAGES && mirrored > 5 && mirrored < IMAGES - 5);
  umbo_iterator_release(iterator);
  umbo_dataset_release(dataset);
}

enum { DROPPED_ROWS = 5, DROPPED_WIDTH = 40 };

/* `data` has the activations of all examples. */
static umbo_status drops(umbo_replica_context *ctx, const umbo_value *batch, void *data, umbo_value **result) {
  umbo_replica_context_info info = UMBO_REPLICA_CONTEXT_INFO_INIT;
  (void)batch, (void)result;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &info));
  return drop_out(ctx, info.local_example_count, DROPPED_WIDTH, (float *)data + info.first_example * DROPPED_WIDTH);
}

static void drops_out(program *p) {
  float activations[DROPPED_ROWS * DROPPED_WIDTH];
  const int64_t shape[] = {DROPPED_ROWS};
  umbo_value *batch = NULL, *parts = NULL;
  int kept = 0;
  for (int i = 0; i < DROPPED_ROWS * DROPPED_WIDTH; ++i) activations[i] = 1;
  UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 1, shape, activations, NULL, &batch));
  UMBO_CHECK(umbo_strategy_split(p->strategy, batch, &parts));
  UMBO_CHECK(umbo_strategy_run(p->strategy, drops, parts, activations, NULL, NULL));
  for (int i = 0; i < DROPPED_ROWS * DROPPED_WIDTH; ++i) {
    assert(activations[i] == 0 || activations[i] == (float)(1 / 0.9));
    kept += activations[i] != 0;
  }
  assert(kept > 160 && kept < 200);
  umbo_value_release(parts);
  umbo_value_release(batch);
}

static double setting(const umbo_optimizer *optimizer, const umbo_variable *variable, const char *name) {
  double number = -1;
  UMBO_CHECK(umbo_optimizer_setting(optimizer, variable, name, &number));
  return number;
}

/* The rate of the last update. */
static double rate_now(const umbo_optimizer *optimizer) {
  umbo_optimizer_info info = UMBO_OPTIMIZER_INFO_INIT;
  UMBO_CHECK(umbo_optimizer_get_info(optimizer, &info));
  return info.learning_rate;
}

static void settings_and_schedules_act(program *p) {
  umbo_optimizer *adamw = NULL;
  umbo_variable *bias = NULL;
  static double first = 0.5; /* for as long as the optimizer lives */
  UMBO_CHECK(umbo_variable_create_drawn(p->strategy, "bias", UMBO_DTYPE_FLOAT32, 0, NULL, UMBO_INITIAL_ZEROS, 0,
                                        &bias));
  UMBO_CHECK(make_optimizer(p->strategy, 1, &bias, p->weights, &adamw));
  assert(setting(adamw, NULL, "global_clip_norm") == 1.0 && setting(adamw, NULL, "weight_decay") == 1e-2);
  assert(setting(adamw, bias, "weight_decay") == 0.0 && setting(adamw, bias, "frozen") == 0);
  assert(setting(adamw, p->weights, "frozen") == 1);

  UMBO_CHECK(use_cosine(p->optimizer));
  UMBO_CHECK(umbo_optimizer_set_iterations(p->optimizer, 49));
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, p->optimizer, p->gradients, step, p, NULL, NULL));
  /* The rate is that of the second update of the pass, number 50. */
  assert(fabs(rate_now(p->optimizer) - 1e-3 * 51 / 100) < 1e-9);
  UMBO_CHECK(use_plateau(p->optimizer));
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, p->optimizer, p->gradients, step, p, NULL, NULL));
  const double full = rate_now(p->optimizer);
  for (int epoch = 0; epoch < 7; ++epoch) UMBO_CHECK(end_epoch(p->optimizer, 1.0));
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, p->optimizer, p->gradients, step, p, NULL, NULL));
  assert(fabs(rate_now(p->optimizer) - full / 10) < 1e-9);
  UMBO_CHECK(use_function(p->optimizer, &first));
  UMBO_CHECK(umbo_optimizer_set_iterations(p->optimizer, 0));
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, p->optimizer, p->gradients, step, p, NULL, NULL));
  assert(rate_now(p->optimizer) == first / 2);

  /* The frozen weights stay as they are. */
  const float before = first_weight(p);
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, adamw, p->gradients, step, p, NULL, NULL));
  assert(first_weight(p) == before);
  umbo_variable_release(bias);
  umbo_optimizer_release(adamw);
}

/* The file has the averages, and the variables have their weights again. */
static void averages(program *p) {
  umbo_optimizer *sgd = NULL;
  model of_line = {p->weights, NULL};
  evaluation e = {p->strategy, p->batches, evaluate_step, &of_line, NULL};
  UMBO_CHECK(umbo_optimizer_create_sgd(p->strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 1), &sgd));
  UMBO_CHECK(use_average(sgd));
  UMBO_CHECK(umbo_checkpoint_create(p->strategy, &e.weights));
  UMBO_CHECK(umbo_checkpoint_add_variable(e.weights, "weights", p->weights));
  UMBO_CHECK(umbo_train_epoch(p->strategy, p->batches, sgd, p->gradients, step, p, NULL, NULL));
  const float before = first_weight(p);
  UMBO_CHECK(evaluate_average(sgd, &e));
  assert(first_weight(p) == before);
  UMBO_CHECK(umbo_checkpoint_restore(e.weights, "averaged.safetensors"));
  assert(first_weight(p) > before); /* a mean of weights that have fallen */
  umbo_checkpoint_release(e.weights);
  umbo_optimizer_release(sgd);
}

/* Both variables have gradients of 1. */
static umbo_status tune(umbo_replica_context *ctx, const umbo_value *batch, void *data, umbo_value **result) {
  umbo_gradients *gradients = data;
  umbo_view gradient;
  (void)batch, (void)result;
  for (int i = 0; i < 2; ++i) {
    UMBO_TRY(umbo_gradients_view(gradients, ctx, i, UMBO_GRADIENT_OVERWRITE, &gradient));
    *(float *)gradient.mutable_data = 1;
  }
  return umbo_gradients_submit_weighted(gradients, ctx, 1);
}

/* Variables of one element each, and a checkpoint that has them under the names of others. */
static umbo_checkpoint *make_model(umbo_strategy *strategy, const float *values, umbo_variable **net) {
  const char *const here[NET] = {"lower", "upper", "head"};
  const char *const elsewhere[NET] = {"model.encoder.lower", "model.encoder.upper", "model.head"};
  umbo_checkpoint *weights = NULL;
  UMBO_CHECK(umbo_checkpoint_create(strategy, &weights));
  for (int i = 0; i < NET; ++i) {
    UMBO_CHECK(umbo_variable_create_drawn(strategy, here[i], UMBO_DTYPE_FLOAT32, 0, NULL, UMBO_INITIAL_ZEROS, 0,
                                          &net[i]));
    UMBO_CHECK(umbo_variable_upload(net[i], &values[i], sizeof(float)));
    UMBO_CHECK(umbo_checkpoint_add_variable(weights, elsewhere[i], net[i]));
  }
  return weights;
}

static float only_element(const umbo_variable *variable) {
  float value = 0;
  UMBO_CHECK(umbo_variable_download(variable, &value, sizeof(value)));
  return value;
}

static void fine_tunes(program *p) {
  const float pretrained[NET] = {0.5f, 1, 3}, fresh[NET] = {0, 0, 1};
  umbo_variable *theirs[NET], *net[NET];
  umbo_optimizer *optimizer = NULL;
  umbo_gradients *gradients = NULL;
  load_report report = {0, 0};
  umbo_checkpoint *of_theirs = make_model(p->strategy, pretrained, theirs);
  umbo_checkpoint *weights = make_model(p->strategy, fresh, net);
  UMBO_CHECK(export_model(of_theirs, "pretrained.safetensors"));
  UMBO_CHECK(load_backbone(p->strategy, net, "pretrained.safetensors", &report));
  assert(report.loaded == 2 && report.not_used == 1);
  assert(only_element(net[LOWER]) == 0.5f && only_element(net[UPPER]) == 1 && only_element(net[HEAD]) == 1);

  UMBO_CHECK(make_fine_tuner(p->strategy, net, &optimizer));
  UMBO_CHECK(make_gradients(p->strategy, net, &gradients));
  for (int i = 0; i < 10; ++i) {
    UMBO_CHECK(umbo_strategy_run(p->strategy, tune, NULL, gradients, NULL, NULL));
    UMBO_CHECK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
  }
  const float upper = only_element(net[UPPER]), head = only_element(net[HEAD]);
  assert(only_element(net[LOWER]) == 0.5f && fabsf(upper - 0.99f) < 1e-3f && fabsf(head - 0.9f) < 1e-2f);

  /* What another program reads: numbers of eight bits. */
  UMBO_CHECK(export_model(weights, "tuned.safetensors"));
  UMBO_CHECK(umbo_checkpoint_load_weights(of_theirs, "tuned.safetensors",
                                          &UMBO_OPTIONS(umbo_load_weights, .convert_floats = 1)));
  assert(only_element(theirs[LOWER]) == 0.5f && fabsf(only_element(theirs[UPPER]) - upper) <= 1.0f / 512);
  assert(fabsf(only_element(theirs[HEAD]) - head) <= 1.0f / 512);
  for (int i = 0; i < NET; ++i) {
    umbo_variable_release(theirs[i]);
    umbo_variable_release(net[i]);
  }
  umbo_gradients_release(gradients);
  umbo_optimizer_release(optimizer);
  umbo_checkpoint_release(weights);
  umbo_checkpoint_release(of_theirs);
}

/* Trains as a program would that was started for the given epochs, with these losses on the test set. Returns in which
 * epoch it has stopped; 0 if it has not. */
static int64_t trains(int64_t most_epochs, int64_t expected_start, float *weight) {
  const double test_losses[] = {3, 2, 1, 5, 5, 5, 0.5, 5, 5, 5, 5, 5, 5, 5};
  program p = start();
  umbo_checkpoint *checkpoint = NULL;
  umbo_checkpoint_manager *manager = NULL;
  patience so_far;
  int64_t epoch = UMBO_NONE, stopped_in = 0;
  int stop = 0;
  memset(&so_far, 0, sizeof(so_far)); /* as in a program that has just been started */
  UMBO_CHECK(umbo_checkpoint_create(p.strategy, &checkpoint));
  UMBO_CHECK(umbo_checkpoint_add_variable(checkpoint, "weights", p.weights));
  UMBO_CHECK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", p.optimizer));
  UMBO_CHECK(umbo_checkpoint_add_iterator(checkpoint, "batches", p.batches));
  UMBO_CHECK(add_patience(checkpoint));
  UMBO_CHECK(umbo_checkpoint_manager_create(checkpoint, "early_stop",
                                            &UMBO_OPTIONS(umbo_checkpoint_manager, .max_to_keep = 2,
                                                          .max_best_to_keep = 1), &manager));
  UMBO_CHECK(umbo_checkpoint_manager_restore_latest(manager, &epoch));
  assert(epoch == expected_start);
  UMBO_CHECK(read_patience(checkpoint, &so_far));
  for (epoch = epoch == UMBO_NONE ? 1 : epoch + 1; !stop && epoch <= most_epochs; ++epoch) {
    UMBO_CHECK(umbo_train_epoch(p.strategy, p.batches, p.optimizer, p.gradients, step, &p, NULL, NULL));
    UMBO_CHECK(after_epoch(checkpoint, manager, epoch, test_losses[epoch - 1], &so_far, &stop));
    if (stop) stopped_in = epoch;
  }
  *weight = first_weight(&p);
  umbo_checkpoint_manager_release(manager);
  umbo_checkpoint_release(checkpoint);
  end(&p);
  return stopped_in;
}

/* The losses of epochs 4 to 6 count although the program is started again behind them. */
static void stops_early(void) {
  float best, weight;
  assert(trains(5, UMBO_NONE, &weight) == 0);
  assert(trains(6, 5, &weight) == 0);
  assert(trains(7, 6, &best) == 0);    /* the best epoch */
  assert(trains(11, 7, &weight) == 0); /* four epochs without a gain */
  assert(trains(14, 11, &weight) == 12);
  assert(weight == best);
  assert(weight < 0.0f); /* there was a training */
}

static void resumes(void) {
  for (int start_number = 0; start_number < 2; ++start_number) {
    program p = start();
    umbo_checkpoint *checkpoint = NULL;
    umbo_checkpoint_manager *manager = NULL;
    int64_t step_number = -2;
    UMBO_CHECK(resume(p.strategy, p.weights, p.optimizer, p.batches, &checkpoint, &manager));
    UMBO_CHECK(umbo_checkpoint_manager_latest(manager, &step_number));
    assert(step_number == (start_number == 0 ? UMBO_NONE : EPOCHS_OF_FIRST_PROGRAM));
    assert((first_weight(&p) != 0.0f) == (start_number == 1));
    for (int64_t epoch = 1; start_number == 0 && epoch <= EPOCHS_OF_FIRST_PROGRAM; ++epoch) {
      UMBO_CHECK(umbo_train_epoch(p.strategy, p.batches, p.optimizer, p.gradients, step, &p, NULL, NULL));
      const double loss = 1.0 / (double)epoch;
      UMBO_CHECK(umbo_checkpoint_manager_save(manager, epoch, &loss, 1, NULL));
    }
    umbo_checkpoint_manager_release(manager);
    umbo_checkpoint_release(checkpoint);
    end(&p);
  }
}

static void grows(void) {
  program p = start();
  const float more[] = {7.0f, 8.0f};
  const int64_t shape[] = {2};
  float weights[5];
  umbo_tensor *vectors = NULL;
  UMBO_CHECK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, more, NULL, &vectors));
  UMBO_CHECK(add_words(p.strategy, p.optimizer, 3, vectors, &p.weights, &p.gradients));
  UMBO_CHECK(umbo_variable_download(p.weights, weights, sizeof(weights)));
  assert(weights[0] == 0.0f && weights[3] == 7.0f && weights[4] == 8.0f);
  umbo_tensor_release(vectors);
  end(&p);
}

int main(void) {
  int64_t left = -1;
  program p = start();
  evaluates_and_measures(&p);
  accumulates(&p);
  returns_several_things(&p);
  is_stopped(&p);
  is_interrupted(&p);
  settings_and_schedules_act(&p);
  averages(&p);
  fine_tunes(&p);
  draws_layers(&p);
  drops_out(&p);
  end(&p);
  reads_files();
  augments();
  stops_early();
  resumes();
  grows();
  UMBO_CHECK(umbo_live_handles(UMBO_HANDLE_ANY, &left));
  assert(left == 0);
  return 0;
}
