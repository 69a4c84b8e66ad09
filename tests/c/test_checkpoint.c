/* Checkpoints: training resumes from a file with the bits that it would have had. */
#include "checkpoint_model.h"

#define STEPS 4

static const char file[] = "test_checkpoint.safetensors";

/* The weights and metrics of both models have the same bits. */
static void check_same(const struct model *a, const struct model *b) {
    float one[3], other[3];
    umbo_metric_result mean = UMBO_METRIC_RESULT_INIT, other_mean = UMBO_METRIC_RESULT_INIT;
    CHECK_OK(umbo_variable_download(a->weights, one, sizeof(one)));
    CHECK_OK(umbo_variable_download(b->weights, other, sizeof(other)));
    CHECK(memcmp(one, other, sizeof(one)) == 0);
    CHECK_OK(umbo_metrics_result(a->metrics, "loss", &mean));
    CHECK_OK(umbo_metrics_result(b->metrics, "loss", &other_mean));
    CHECK(mean.sum == other_mean.sum && mean.weight == other_mean.weight && mean.mean == other_mean.mean);
}

/* Trains, saves, restores into another model, and trains both on. */
static void goes_on_from_a_file(int32_t replicas) {
    struct model a, b;
    umbo_view view;
    int64_t epoch = 0;
    double best = 0;
    float seen[2];
    make(&a, replicas);
    train(&a, STEPS);
    CHECK_OK(umbo_tensor_mutable_view(a.seen, &view));
    ((float *)view.mutable_data)[1] = 4.5f;
    CHECK_OK(umbo_checkpoint_set_integer(a.checkpoint, "epoch", 7));
    CHECK_OK(umbo_checkpoint_set_number(a.checkpoint, "best", -0.25));
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    make(&b, replicas);
    CHECK_OK(umbo_checkpoint_restore(b.checkpoint, file));
    check_same(&a, &b);
    CHECK_OK(umbo_checkpoint_integer(b.checkpoint, "epoch", &epoch));
    CHECK_OK(umbo_checkpoint_number(b.checkpoint, "best", &best));
    CHECK(epoch == 7 && best == -0.25);
    CHECK_OK(umbo_tensor_download(b.seen, seen, sizeof(seen)));
    CHECK(seen[0] == 0 && seen[1] == 4.5f);
    train(&a, STEPS);
    train(&b, STEPS);
    check_same(&a, &b);
    release(&b);
    release(&a);
}

/* A file that does not fit is refused, with a message that says why, and nothing changes. */
static void what_does_not_fit_is_refused(void) {
    struct model a;
    float before[3], after[3];
    umbo_variable *more;
    int64_t best = 0;
    const char *const names[1] = {"weights"}, *const tensors[1] = {"no such tensor"};
    umbo_load_weights_options options = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
    make(&a, 2);
    train(&a, 1);
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    train(&a, 1);
    CHECK_OK(umbo_variable_download(a.weights, before, sizeof(before)));
    more = make_variable(a.strategy, 1, UMBO_AGGREGATION_SUM);
    CHECK_OK(umbo_checkpoint_add_variable(a.checkpoint, "more", more));
    CHECK_FAILS(umbo_checkpoint_restore(a.checkpoint, file), UMBO_STATUS_INVALID_ARGUMENT,
                "the file has no variable 'more'");
    CHECK_FAILS(umbo_checkpoint_add_variable(a.checkpoint, "optimizer", more),
                UMBO_STATUS_INVALID_ARGUMENT, "an optimizer that was added before");
    CHECK_FAILS(umbo_checkpoint_restore(a.checkpoint, "no such file"), UMBO_STATUS_NOT_FOUND,
                "no such file");
    CHECK_FAILS(umbo_checkpoint_save(a.checkpoint, "no/such/folder/file"), UMBO_STATUS_NOT_FOUND,
                "no/such/folder");
    options.count = 1;
    options.names = names;
    options.tensor_names = tensors;
    CHECK_FAILS(umbo_checkpoint_load_weights(a.checkpoint, file, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "no tensor 'no such tensor'");
    options.names = NULL;
    CHECK_FAILS(umbo_checkpoint_load_weights(a.checkpoint, file, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "names");
    CHECK_FAILS(umbo_checkpoint_integer(a.checkpoint, "best", &best),
                UMBO_STATUS_INVALID_ARGUMENT, "umbo_checkpoint_number()");
    CHECK_OK(umbo_variable_download(a.weights, after, sizeof(after)));
    CHECK(memcmp(before, after, sizeof(before)) == 0);
    options.names = names;
    options.tensor_names = NULL;
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, file, &options));
    CHECK_OK(umbo_variable_download(a.weights, after, sizeof(after)));
    CHECK_OK(umbo_checkpoint_save_weights(a.checkpoint, file, NULL));
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, file, NULL));
    umbo_variable_release(more);
    release(&a);
}

/* Each piece of an optimizer's state can be set by itself. */
static void state_is_set(void) {
    struct model a;
    const float momentum[3] = {1, 2, 3};
    float read[3];
    umbo_variable_progress progress = UMBO_VARIABLE_PROGRESS_INIT;
    umbo_tensor *state = make_floats(3, momentum), *other = make_floats(2, momentum), *kept;
    make(&a, 1);
    CHECK_OK(umbo_optimizer_assign_state(a.optimizer, a.weights, "m", state));
    CHECK_OK(umbo_optimizer_read_state(a.optimizer, a.weights, "m", &kept));
    CHECK_OK(umbo_tensor_download(kept, read, sizeof(read)));
    CHECK(memcmp(read, momentum, sizeof(read)) == 0);
    progress.update_count = 5;
    progress.first_running = 0.5;
    progress.second_running = 0.25;
    CHECK_OK(umbo_optimizer_set_variable_progress(a.optimizer, a.weights, &progress));
    progress.update_count = 0;
    CHECK_OK(umbo_optimizer_variable_progress(a.optimizer, a.weights, &progress));
    CHECK(progress.update_count == 5);
    CHECK(progress.first_running == 0.5 && progress.second_running == 0.25);
    CHECK_OK(umbo_optimizer_set_iterations(a.optimizer, 9));
    CHECK(optimizer_info_of(a.optimizer).iterations == 9);
    CHECK_OK(umbo_optimizer_set_loss_scale(a.optimizer, 8, 0));
    CHECK(optimizer_info_of(a.optimizer).loss_scale == 8);
    CHECK_FAILS(umbo_optimizer_assign_state(a.optimizer, a.weights, "m", other),
                UMBO_STATUS_INVALID_ARGUMENT, "[2]");
    CHECK_FAILS(umbo_optimizer_assign_state(a.optimizer, a.weights, "momentum", state),
                UMBO_STATUS_NOT_FOUND, "adam keeps");
    CHECK_FAILS(umbo_optimizer_set_iterations(a.optimizer, -1), UMBO_STATUS_INVALID_ARGUMENT, "-1");
    CHECK_FAILS(umbo_optimizer_set_loss_scale(a.optimizer, 0, 0), UMBO_STATUS_INVALID_ARGUMENT,
                "0");
    umbo_tensor_release(kept);
    umbo_tensor_release(other);
    umbo_tensor_release(state);
    release(&a);
}

/* An iterator resumes after the element that it had given when the file was saved. */
static void an_iterator_goes_on(void) {
    struct model a;
    umbo_dataset *dataset;
    umbo_iterator *iterator;
    umbo_value *element;
    int32_t index;
    make(&a, 1);
    CHECK_OK(umbo_dataset_from_range(0, 9, 1, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_checkpoint_add_iterator(a.checkpoint, "pass", iterator));
    for (index = 0; index < 9; index++) {
        CHECK_OK(umbo_iterator_next(iterator, &element));
        CHECK(element != NULL);
        umbo_value_release(element);
        if (index == 7) CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    }
    CHECK_OK(umbo_checkpoint_restore(a.checkpoint, file));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element != NULL);
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    release(&a);
}

/* Saves after step 2 of an epoch, and ends it after step 3. */
static umbo_status save_then_abort(const umbo_progress *progress, void *user_data) {
    struct model *m = (struct model *)user_data;
    if (progress->step_count == 2) UMBO_TRY(umbo_checkpoint_save(m->checkpoint, file));
    if (progress->step_count < 3) return UMBO_OK;
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
}

/* A pass over 5 batches, which belongs to the model's checkpoint. */
static umbo_iterator *five_batches(const struct model *m) {
    umbo_dataset *batches;
    umbo_distributed_dataset *distributed;
    umbo_iterator *iterator;
    CHECK_OK(umbo_dataset_from_range(0, 20, 1, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(m->strategy, batches, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    CHECK_OK(umbo_checkpoint_add_iterator(m->checkpoint, "pass", iterator));
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(batches);
    return iterator;
}

/* An epoch that was aborted resumes from a file, and ends as one that was not. */
static void an_epoch_goes_on(void) {
    struct model whole, resumed;
    umbo_iterator *pass, *resumed_pass;
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    make(&whole, 2);
    pass = five_batches(&whole);
    options.metrics = whole.metrics;
    CHECK_OK(umbo_train_epoch(whole.strategy, pass, whole.optimizer, whole.gradients, step, &whole,
                              &options, &report));
    CHECK(report.step_count == 5 && report.pass_ended == 1);

    make(&resumed, 2);
    resumed_pass = five_batches(&resumed);
    options.metrics = resumed.metrics;
    options.progress = save_then_abort;
    options.progress_user_data = &resumed;
    CHECK_STATUS(umbo_train_epoch(resumed.strategy, resumed_pass, resumed.optimizer,
                                  resumed.gradients, step, &resumed, &options, NULL),
                 UMBO_STATUS_ABORTED);
    CHECK_OK(umbo_checkpoint_restore(resumed.checkpoint, file));
    options.progress = NULL;
    options.keep_metrics = 1;
    CHECK_OK(umbo_train_epoch(resumed.strategy, resumed_pass, resumed.optimizer, resumed.gradients,
                              step, &resumed, &options, &report));
    CHECK(report.step_count == 3 && report.pass_ended == 1);
    check_same(&whole, &resumed);
    umbo_iterator_release(resumed_pass);
    umbo_iterator_release(pass);
    release(&resumed);
    release(&whole);
}

/* Strings are saved, restored, and read from a file without a checkpoint. */
static void strings_are_saved(void) {
    struct model a, b;
    static char string[(1 << 20) + 2];
    char buffer[64];
    size_t length = 0;
    const char *const notes = "{\"layers\": 3, \"name\": \"K\xc3\xa4the\"}\n";
    make(&a, 2);
    CHECK_OK(umbo_checkpoint_set_string(a.checkpoint, "notes", "none yet"));
    CHECK_OK(umbo_checkpoint_set_string(a.checkpoint, "notes", notes));
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    CHECK_OK(umbo_checkpoint_read_string(file, "notes", buffer, sizeof(buffer), &length));
    CHECK(length == strlen(notes) && strcmp(buffer, notes) == 0);
    CHECK_STATUS(umbo_checkpoint_read_string(file, "notes", NULL, 0, &length),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length == strlen(notes));
    CHECK_FAILS(umbo_checkpoint_read_string(file, "epoch", buffer, sizeof(buffer), &length),
                UMBO_STATUS_INVALID_ARGUMENT, "'epoch' is a number");
    CHECK_FAILS(umbo_checkpoint_read_string(file, "note", buffer, sizeof(buffer), &length),
                UMBO_STATUS_NOT_FOUND, "has no string 'note'");
    make(&b, 2);
    CHECK_FAILS(umbo_checkpoint_restore(b.checkpoint, file), UMBO_STATUS_INVALID_ARGUMENT,
                "the file has a string 'notes', which was not added");
    CHECK_FAILS(umbo_checkpoint_string(b.checkpoint, "notes", buffer, sizeof(buffer), &length),
                UMBO_STATUS_NOT_FOUND, "no string 'notes'");
    CHECK_OK(umbo_checkpoint_set_string(b.checkpoint, "notes", ""));
    CHECK_OK(umbo_checkpoint_restore(b.checkpoint, file));
    CHECK_OK(umbo_checkpoint_string(b.checkpoint, "notes", buffer, sizeof(buffer), &length));
    CHECK(strcmp(buffer, notes) == 0);
    memset(string, 'n', sizeof(string) - 1);
    CHECK_FAILS(umbo_checkpoint_set_string(b.checkpoint, "notes", string),
                UMBO_STATUS_INVALID_ARGUMENT, "string: has 1048577 bytes; at most 1048576");
    string[1 << 20] = 0;
    CHECK_OK(umbo_checkpoint_set_string(b.checkpoint, "notes", string));
    CHECK_FAILS(umbo_checkpoint_set_string(b.checkpoint, "epoch", ""),
                UMBO_STATUS_INVALID_ARGUMENT, "a number that was added before");
    release(&b);
    release(&a);
}

int main(void) {
    int32_t replicas;
    for (replicas = 1; replicas <= 3; replicas++) goes_on_from_a_file(replicas);
    what_does_not_fit_is_refused();
    state_is_set();
    an_iterator_goes_on();
    an_epoch_goes_on();
    strings_are_saved();
    CHECK(remove(file) == 0);
    return finish();
}
