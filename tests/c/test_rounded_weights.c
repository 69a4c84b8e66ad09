/* Weights in bfloat16 that are rounded stochastically: chosen, trained, saved, restored, and refused. */
#include <math.h>

#include "kept_weights.h"

enum { STEPS = 40 };

static float widened(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &wide, sizeof number);
    return number;
}

/* The weights move to 1, by steps that are smaller than the distance of two neighbours. */
static umbo_status give_gradient(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient, weights;
    int index;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_variable_view(self->weights, context, self->dtype, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (index = 0; index < ELEMENTS; index++) {
        if (self->dtype == UMBO_DTYPE_FLOAT32) {
            ((float *)gradient.mutable_data)[index] = ((const float *)weights.data)[index] - 1;
        } else {
            const float wide = widened(((const uint16_t *)weights.data)[index]) - 1;
            uint32_t bits;
            memcpy(&bits, &wide, sizeof bits);
            ((uint16_t *)gradient.mutable_data)[index] = (uint16_t)(bits >> 16);
        }
    }
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

static umbo_optimizer_options rounding(uint64_t seed) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    options.state_bits = 8;
    options.stochastic_rounding = 1;
    options.rounding_seed = seed;
    return options;
}

static training begin(umbo_strategy *strategy, umbo_dtype dtype, uint64_t seed) {
    const umbo_optimizer_options options = rounding(seed);
    umbo_adamw_options adamw = UMBO_ADAMW_OPTIONS_INIT;
    adamw.weight_decay = 0;
    return begin_with(strategy, dtype, &adamw, &options);
}

static void bits_of(const training *self, uint16_t *bits) {
    CHECK_OK(umbo_variable_download(self->weights, bits, ELEMENTS * sizeof *bits));
}

static void trained_and_saved(umbo_strategy *strategy) {
    static float exact[ELEMENTS];
    static uint16_t rounded[ELEMENTS], others[ELEMENTS];
    training full = begin(strategy, UMBO_DTYPE_FLOAT32, 3), narrow = begin(strategy, UMBO_DTYPE_BFLOAT16, 3);
    training other = begin(strategy, UMBO_DTYPE_BFLOAT16, 4);
    double setting = 0, sum = 0;
    int index;
    CHECK_OK(umbo_optimizer_setting(narrow.optimizer, NULL, "stochastic_rounding", &setting));
    CHECK(setting == 1);
    CHECK_OK(umbo_optimizer_setting(narrow.optimizer, NULL, "rounding_seed", &setting));
    CHECK(setting == 3);
    train(&full, STEPS);
    train(&narrow, STEPS);
    train(&other, STEPS);
    CHECK_OK(umbo_variable_download(full.weights, exact, sizeof exact));
    bits_of(&narrow, rounded);
    bits_of(&other, others);
    CHECK(memcmp(rounded, others, sizeof rounded) != 0);
    for (index = 0; index < ELEMENTS; index++) sum += widened(rounded[index]);
    CHECK(fabs(sum / ELEMENTS - exact[0]) < exact[0] / 100);
    /* As it was saved, to the bit, and from then on the same, also where the seed was another. */
    CHECK_OK(umbo_checkpoint_save(narrow.checkpoint, "narrow.safetensors"));
    CHECK_OK(umbo_checkpoint_restore(other.checkpoint, "narrow.safetensors"));
    bits_of(&other, others);
    CHECK(memcmp(rounded, others, sizeof rounded) == 0);
    {
        const umbo_optimizer_options options = rounding(3);
        CHECK_OK(umbo_optimizer_configure(other.optimizer, &options));
    }
    train(&narrow, 3);
    train(&other, 3);
    bits_of(&narrow, rounded);
    bits_of(&other, others);
    CHECK(memcmp(rounded, others, sizeof rounded) == 0);
    end(&full);
    end(&narrow);
    end(&other);
}

static void refused(umbo_strategy *strategy) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_optimizer *lamb = NULL;
    training self = begin(strategy, UMBO_DTYPE_BFLOAT16, 1);
    train(&self, 1);
    /* Without the option, weights in bfloat16 are not updated. */
    options.state_bits = 8;
    CHECK_OK(umbo_optimizer_configure(self.optimizer, &options));
    CHECK_OK(umbo_strategy_run(strategy, give_gradient, NULL, &self, NULL, NULL));
    CHECK_STATUS(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("stochastic_rounding");
    options = rounding(1);
    CHECK_OK(umbo_optimizer_configure(self.optimizer, &options));
    CHECK_OK(umbo_optimizer_apply(self.optimizer, self.gradients, NULL, NULL));
    options.stochastic_rounding = 2;
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.stochastic_rounding");
    options = rounding(1);
    options.average = UMBO_AVERAGE_MEAN;
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("average");
    CHECK_OK(umbo_optimizer_create_lamb(strategy, NULL, &lamb));
    options = rounding(1);
    options.state_bits = 0;
    CHECK_STATUS(umbo_optimizer_configure(lamb, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("stochastic_rounding");
    umbo_optimizer_release(lamb);
    end(&self);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    trained_and_saved(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
