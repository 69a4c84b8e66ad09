/* Learning rate schedules with a name, through C: rates, a plateau, a checkpoint, and what is refused. */
#include <math.h>

#include "one_weight.h"

/* The learning rate of the next update. */
static double step(const training *self) {
    umbo_apply_report report = UMBO_APPLY_REPORT_INIT;
    CHECK_OK(umbo_strategy_run(self->strategy, give_gradient, NULL, (void *)self, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, &report));
    return report.learning_rate;
}

static umbo_schedule_options of_kind(umbo_schedule_kind kind, int64_t warmup, int64_t updates) {
    umbo_schedule_options options = UMBO_SCHEDULE_OPTIONS_INIT;
    options.kind = kind;
    options.warmup_updates = warmup;
    options.updates = updates;
    return options;
}

/* Rates by hand; tests/optimizer/schedules.rs compares all schedules with PyTorch's. */
static void rates(umbo_strategy *strategy) {
    enum { SCHEDULES = 5, STEPS = 6 };
    const double pi = 3.14159265358979323846, expected[SCHEDULES][STEPS] = {
        {0.25, 0.5, 0.5, 0.5, 0.5, 0.5},
        {0.25, 0.5, 0.5, 0.375, 0.25, 0.125},
        {0.5, 0.5 * (1 + cos(pi / 4)) / 2, 0.25, 0.5 * (1 - cos(pi / 4)) / 2, 0, 0},
        {0.5, 0.5, 0.05, 0.05, 0.005, 0.005},
        {0.02, 0.5, 0.5 * (0.75 + 0.25 * 4e-6), 0.5 * (0.25 + 0.75 * 4e-6), 0.5 * 4e-6, 0.5 * 4e-6},
    };
    umbo_schedule_options all[SCHEDULES];
    int at, t;
    all[0] = of_kind(UMBO_SCHEDULE_CONSTANT, 2, 0);
    all[1] = of_kind(UMBO_SCHEDULE_LINEAR, 2, 6);
    all[2] = of_kind(UMBO_SCHEDULE_COSINE, 0, 4);
    all[3] = of_kind(UMBO_SCHEDULE_STEP, 0, 0);
    all[3].interval = 2;
    all[4] = of_kind(UMBO_SCHEDULE_ONE_CYCLE, 2, 5);
    for (at = 0; at < SCHEDULES; at++) {
        training self = begin(strategy, 0.5, NULL);
        CHECK_OK(umbo_optimizer_set_named_schedule(self.optimizer, &all[at]));
        for (t = 0; t < STEPS; t++) CHECK(fabs(step(&self) - expected[at][t]) < 1e-12);
        end(&self);
    }
}

/* The loss does not fall: after `patience` values the rate does, and a checkpoint knows. */
static void plateau(umbo_strategy *strategy) {
    umbo_schedule_options options = of_kind(UMBO_SCHEDULE_PLATEAU, 0, 0);
    training self = begin(strategy, 0.5, NULL), other = begin(strategy, 0.5, NULL);
    umbo_checkpoint *checkpoint = NULL;
    const char *path = "schedule.safetensors";
    CHECK_STATUS(umbo_optimizer_observe(self.optimizer, 1), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("plateau");
    options.patience = 1;
    CHECK_OK(umbo_optimizer_set_named_schedule(self.optimizer, &options));
    CHECK_OK(umbo_optimizer_observe(self.optimizer, 1));
    CHECK_OK(umbo_optimizer_observe(self.optimizer, 1));
    CHECK(step(&self) == 0.5);
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", self.optimizer));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, "weight", self.weight));
    CHECK_OK(umbo_checkpoint_save(checkpoint, path));
    umbo_checkpoint_release(checkpoint);
    CHECK_OK(umbo_optimizer_observe(self.optimizer, 1));
    CHECK(fabs(step(&self) - 0.05) < 1e-15);

    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", other.optimizer));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, "weight", other.weight));
    CHECK_OK(umbo_checkpoint_restore(checkpoint, path));
    umbo_checkpoint_release(checkpoint);
    CHECK(remove(path) == 0);
    CHECK_OK(umbo_optimizer_observe(other.optimizer, 1));
    CHECK(fabs(step(&other) - 0.05) < 1e-15);
    end(&self);
    end(&other);
}

static void refuse(const training *self, const umbo_schedule_options *options, const char *named) {
    CHECK_STATUS(umbo_optimizer_set_named_schedule(self->optimizer, options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(umbo_last_error_message(), named) != NULL);
}

static void refused(umbo_strategy *strategy) {
    umbo_schedule_options options = of_kind(UMBO_SCHEDULE_COSINE, 4, 4);
    training self = begin(strategy, 0.5, NULL);
    refuse(&self, &options, "options.updates");
    options = of_kind(UMBO_SCHEDULE_CONSTANT, -1, 0);
    refuse(&self, &options, "options.warmup_updates");
    options = of_kind(UMBO_SCHEDULE_STEP, 0, 0);
    refuse(&self, &options, "options.interval");
    options = of_kind(UMBO_SCHEDULE_PLATEAU, 0, 0);
    options.factor = 1;
    refuse(&self, &options, "options.factor");
    options = of_kind(UMBO_SCHEDULE_PLATEAU, 0, 0);
    options.larger_is_better = 7;
    refuse(&self, &options, "options.larger_is_better");
    options = of_kind(UMBO_ENUM_VALUE(umbo_schedule_kind, UMBO_AVERAGE_MEAN), 0, 0);
    refuse(&self, &options, "options.kind");
    end(&self);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    rates(strategy);
    plateau(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
