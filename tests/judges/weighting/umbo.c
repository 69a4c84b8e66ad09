/* Trains a case of the weighting suite with Umbo: docs/internals/case-language.md says what a training case is.
 *
 * umbo_judge_weighting WORKERS REPLICAS REDUCTION BATCH EXAMPLES ACCUMULATION CLIP_NORM LOSS_SCALE EPOCHS
 * prints "loss", "error", "norm" and "weight" lines, a number each: of each epoch, of each update, and of the end.
 * The workers are ranks: processes on this machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ranks.h>
#include <umbo/all.h>

enum { WIDTH = 3 };

struct setting {
    int workers;
    int64_t replicas;
    umbo_loss_reduction reduction;
    int64_t batch, examples, accumulation;
    double clip_norm, loss_scale;
    int epochs;
};

struct trainer {
    const struct setting *setting;
    umbo_variable *variables[2]; /* w, b */
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_metrics *metrics;
    int64_t first; /* the example with which the group of accumulated batches begins */
};

/* The examples of the batches that make one update with the one that begins at `first`. */
static int64_t group_of(const struct setting *setting, int64_t first) {
    const int64_t most = setting->batch * setting->accumulation, left = setting->examples - first;
    return left < most ? left : most;
}

static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
    const struct trainer *trainer = (const struct trainer *)user_data;
    umbo_view x, y, w, b, w_gradient, b_gradient;
    double scale = 1, loss = 0, error = 0;
    int64_t row;
    umbo_optimizer_info state = UMBO_OPTIMIZER_INFO_INIT;
    int column;
    (void)result;
    UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_FLOAT64, &x));
    UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_FLOAT64, &y));
    UMBO_TRY(umbo_variable_view(trainer->variables[0], ctx, UMBO_DTYPE_FLOAT64, &w));
    UMBO_TRY(umbo_variable_view(trainer->variables[1], ctx, UMBO_DTYPE_FLOAT64, &b));
    UMBO_TRY(umbo_gradients_view(trainer->gradients, ctx, 0, UMBO_GRADIENT_ADD, &w_gradient));
    UMBO_TRY(umbo_gradients_view(trainer->gradients, ctx, 1, UMBO_GRADIENT_ADD, &b_gradient));
    UMBO_TRY(umbo_optimizer_get_info(trainer->optimizer, &state));
    scale = state.loss_scale;
    if (trainer->setting->reduction == UMBO_LOSS_MEAN && x.shape[0] > 0) scale /= (double)x.shape[0];
    if (trainer->setting->reduction == UMBO_LOSS_GLOBAL_MEAN)
        scale /= (double)group_of(trainer->setting, trainer->first);
    for (row = 0; row < x.shape[0]; row++) {
        const double *inputs = (const double *)x.data + row * WIDTH;
        double difference = *(const double *)b.data - ((const double *)y.data)[row];
        for (column = 0; column < WIDTH; column++) difference += ((const double *)w.data)[column] * inputs[column];
        loss += difference * difference;
        error += fabs(difference);
        for (column = 0; column < WIDTH; column++)
            ((double *)w_gradient.mutable_data)[column] += scale * 2 * difference * inputs[column];
        *(double *)b_gradient.mutable_data += scale * 2 * difference;
    }
    UMBO_TRY(umbo_metrics_add(trainer->metrics, ctx, "loss", loss, (double)x.shape[0]));
    UMBO_TRY(umbo_metrics_add(trainer->metrics, ctx, "error", error, (double)x.shape[0]));
    return umbo_gradients_submit(trainer->gradients, ctx);
}

static umbo_iterator *batches_of(const struct setting *setting, umbo_strategy *strategy) {
    const size_t examples = (size_t)setting->examples;
    double *x = (double *)malloc(examples * WIDTH * sizeof *x), *y = (double *)malloc(examples * sizeof *y);
    const int64_t shape[2] = {setting->examples, WIDTH};
    const char *const names[2] = {"x", "y"};
    umbo_view columns[2];
    umbo_dataset *dataset = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    size_t row, column;
    if (!x || !y) abort();
    for (row = 0; row < examples; row++) {
        for (column = 0; column < WIDTH; column++)
            x[row * WIDTH + column] = sin(1 + 3 * (double)row + 7 * (double)column);
        y[row] = x[row * WIDTH] - 2 * x[row * WIDTH + 1] + 3 * x[row * WIDTH + 2] + cos(1 + 2 * (double)row);
    }
    columns[0] = umbo_view_of_memory(UMBO_DTYPE_FLOAT64, 2, shape, x);
    columns[1] = umbo_view_of_memory(UMBO_DTYPE_FLOAT64, 1, shape, y);
    UMBO_CHECK(umbo_dataset_from_arrays(2, names, columns, &dataset));
    UMBO_CHECK(umbo_dataset_batch(&dataset, setting->batch, 0));
    UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
    UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_dataset_release(dataset);
    umbo_distributed_dataset_release(distributed);
    /* The arrays are the dataset's until the program ends. */
    return iterator;
}

static void train_epoch(struct trainer *trainer, umbo_strategy *strategy, umbo_iterator *iterator, int prints) {
    const struct setting *setting = trainer->setting;
    int64_t first = 0;
    int metric;
    UMBO_CHECK(umbo_metrics_reset(trainer->metrics));
    trainer->first = 0;
    while (first < setting->examples) {
        umbo_value *element = NULL;
        umbo_apply_options options = UMBO_APPLY_OPTIONS_INIT;
        umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
        UMBO_CHECK(umbo_iterator_next(iterator, &element));
        UMBO_CHECK(umbo_strategy_run(strategy, step, element, trainer, NULL, NULL));
        umbo_value_release(element);
        first += setting->batch;
        options.measure_norm = 1;
        options.flush = first >= setting->examples;
        UMBO_CHECK(umbo_optimizer_apply(trainer->optimizer, trainer->gradients, &options, &report));
        if (report.applied) trainer->first = first;
        if (report.applied && prints) printf("norm %.17g\n", report.gradient_norm);
    }
    UMBO_CHECK(umbo_iterator_reset(iterator));
    for (metric = 0; metric < 2; metric++) {
        const char *const name = metric == 0 ? "loss" : "error";
        umbo_metric_result mean = UMBO_METRIC_RESULT_INIT;
        UMBO_CHECK(umbo_metrics_result(trainer->metrics, name, &mean));
        if (prints) printf("%s %.17g\n", name, mean.mean);
    }
}

static int train(umbo_communicator *communicator, int rank, void *argument) {
    struct trainer trainer = {NULL, {NULL, NULL}, NULL, NULL, NULL, 0};
    const struct setting *setting = trainer.setting = (const struct setting *)argument;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_momentum_options momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    umbo_optimizer_options settings = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_iterator *iterator;
    int epoch, variable;
    options.cpu_replicas = setting->replicas;
    options.communicator = communicator;
    options.bind_threads = 0;
    UMBO_CHECK(umbo_strategy_create(&options, &strategy));
    for (variable = 0; variable < 2; variable++) {
        const int64_t shape[1] = {variable == 0 ? WIDTH : 1};
        umbo_variable_options zeros = UMBO_VARIABLE_OPTIONS_INIT;
        zeros.initial = UMBO_INITIAL_ZEROS;
        zeros.dtype = UMBO_DTYPE_FLOAT64;
        zeros.ndim = 1;
        zeros.shape = shape;
        UMBO_CHECK(umbo_variable_create(strategy, variable == 0 ? "w" : "b", NULL, &zeros,
                                        &trainer.variables[variable]));
    }
    how.accumulation_steps = setting->accumulation;
    UMBO_CHECK(umbo_gradients_create(strategy, 2, trainer.variables, setting->reduction, &how, &trainer.gradients));
    momentum.learning_rate = 0.0625;
    momentum.momentum = 0.875;
    UMBO_CHECK(umbo_optimizer_create_momentum(strategy, &momentum, &trainer.optimizer));
    if (setting->clip_norm > 0) settings.global_clip_norm = setting->clip_norm;
    if (setting->loss_scale > 0) {
        settings.loss_scaling = UMBO_LOSS_SCALING_DYNAMIC;
        settings.loss_scale = setting->loss_scale;
    }
    UMBO_CHECK(umbo_optimizer_configure(trainer.optimizer, &settings));
    UMBO_CHECK(umbo_metrics_create(strategy, &trainer.metrics));
    UMBO_CHECK(umbo_metrics_define(trainer.metrics, "loss", UMBO_METRIC_MEAN, NULL));
    UMBO_CHECK(umbo_metrics_define(trainer.metrics, "error", UMBO_METRIC_MEAN, NULL));
    iterator = batches_of(setting, strategy);
    for (epoch = 0; epoch < setting->epochs; epoch++) train_epoch(&trainer, strategy, iterator, rank == 0);
    for (variable = 0; variable < 2; variable++) {
        double values[WIDTH];
        const int count = variable == 0 ? WIDTH : 1;
        int at;
        UMBO_CHECK(umbo_variable_download(trainer.variables[variable], values, (size_t)count * sizeof *values));
        for (at = 0; at < count && rank == 0; at++) printf("weight %.17g\n", values[at]);
    }
    umbo_iterator_release(iterator);
    umbo_metrics_release(trainer.metrics);
    umbo_optimizer_release(trainer.optimizer);
    umbo_gradients_release(trainer.gradients);
    umbo_variable_release(trainer.variables[0]);
    umbo_variable_release(trainer.variables[1]);
    umbo_strategy_release(strategy);
    return fflush(stdout);
}

int main(int count, char **words) {
    static const char *const reductions[] = {"sum", "mean", "global_mean"};
    struct setting setting;
    struct ranks_options options = {0};
    struct ranks_outcome outcome;
    int reduction, rank;
    if (count != 10) {
        fputs("give WORKERS REPLICAS REDUCTION BATCH EXAMPLES ACCUMULATION CLIP_NORM LOSS_SCALE EPOCHS\n", stderr);
        return 2;
    }
    setting.workers = atoi(words[1]);
    setting.replicas = atoll(words[2]);
    for (reduction = 0; reduction < 3 && strcmp(words[3], reductions[reduction]) != 0; reduction++) {}
    if (reduction == 3) return fprintf(stderr, "%s: sum, mean and global_mean are possible\n", words[3]), 2;
    setting.reduction = reduction == 0 ? UMBO_LOSS_SUM : reduction == 1 ? UMBO_LOSS_MEAN : UMBO_LOSS_GLOBAL_MEAN;
    setting.batch = atoll(words[4]);
    setting.examples = atoll(words[5]);
    setting.accumulation = atoll(words[6]);
    setting.clip_norm = atof(words[7]);
    setting.loss_scale = atof(words[8]);
    setting.epochs = atoi(words[9]);
    if (setting.workers == 1) return train(NULL, 0, &setting);
    options.size = setting.workers;
    outcome = ranks_run(&options, train, &setting);
    for (rank = 0; rank < setting.workers; rank++)
        if (outcome.hung || outcome.code[rank] != 0) return fprintf(stderr, "rank %d did not end well\n", rank), 1;
    return 0;
}
