/* States of 8 bits: chosen, read in full, saved in a quarter of the bytes, converted, and refused. */
#include <math.h>

#include "kept_weights.h"

enum { STEPS = 8 };

static umbo_status give_gradient(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    const training *self = (const training *)user_data;
    umbo_view gradient;
    int index;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (index = 0; index < ELEMENTS; index++) {
        ((float *)gradient.mutable_data)[index] = (float)(index % 7 - 3) / (float)(1 + index % 50);
    }
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

static umbo_optimizer_options bits(int64_t state_bits) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    options.state_bits = state_bits;
    return options;
}

static training begin(umbo_strategy *strategy, int64_t state_bits) {
    const umbo_optimizer_options options = bits(state_bits);
    return begin_with(strategy, UMBO_DTYPE_FLOAT32, NULL, &options);
}

static void state_of(const training *self, const char *name, float *values) {
    umbo_tensor *state = NULL;
    CHECK_OK(umbo_optimizer_read_state(self->optimizer, self->weights, name, &state));
    CHECK_OK(umbo_tensor_download(state, values, ELEMENTS * sizeof(float)));
    umbo_tensor_release(state);
}

static long size_of_file(const char *path) {
    FILE *file = fopen(path, "rb");
    long size = 0;
    CHECK(file != NULL);
    if (file == NULL) return 0;
    CHECK(fseek(file, 0, SEEK_END) == 0);
    size = ftell(file);
    fclose(file);
    return size;
}

/* A state and its counterpart in full differ by less than a twentieth, all elements taken together. */
static int resembles(const float *one, const float *other) {
    double difference = 0, all = 0;
    int index;
    for (index = 0; index < ELEMENTS; index++) {
        difference += fabs((double)one[index] - (double)other[index]);
        all += fabs((double)other[index]);
    }
    return all > 0 && difference < all / 20;
}

static void trained_and_saved(umbo_strategy *strategy) {
    static float in_8[ELEMENTS], in_32[ELEMENTS], again[ELEMENTS];
    training full = begin(strategy, 0), eight = begin(strategy, 8), other = begin(strategy, 8);
    double setting = 0;
    CHECK_OK(umbo_optimizer_setting(eight.optimizer, NULL, "state_bits", &setting));
    CHECK(setting == 8);
    train(&full, STEPS);
    train(&eight, STEPS);
    state_of(&full, "m", in_32);
    state_of(&eight, "m", in_8);
    CHECK(memcmp(in_8, in_32, sizeof in_8) != 0 && resembles(in_8, in_32));
    CHECK_OK(umbo_checkpoint_save(full.checkpoint, "full.safetensors"));
    CHECK_OK(umbo_checkpoint_save(eight.checkpoint, "eight.safetensors"));
    CHECK(size_of_file("full.safetensors") - size_of_file("eight.safetensors") > 2 * 2 * ELEMENTS);
    /* As it was saved, to the bit, and from then on the same. */
    CHECK_OK(umbo_checkpoint_restore(other.checkpoint, "eight.safetensors"));
    state_of(&other, "m", again);
    CHECK(memcmp(again, in_8, sizeof in_8) == 0);
    train(&eight, 2);
    train(&other, 2);
    state_of(&eight, "v", in_8);
    state_of(&other, "v", again);
    CHECK(memcmp(again, in_8, sizeof in_8) == 0);
    /* Each takes over what the other has saved. */
    CHECK_OK(umbo_checkpoint_restore(other.checkpoint, "full.safetensors"));
    state_of(&other, "m", again);
    CHECK(memcmp(again, in_32, sizeof in_32) != 0 && resembles(again, in_32));
    CHECK_OK(umbo_checkpoint_save(other.checkpoint, "eight.safetensors"));
    CHECK_OK(umbo_checkpoint_restore(full.checkpoint, "eight.safetensors"));
    state_of(&full, "m", in_32);
    CHECK(memcmp(again, in_32, sizeof in_32) == 0);
    train(&full, 1);
    train(&other, 1);
    end(&full);
    end(&eight);
    end(&other);
}

static void refused(umbo_strategy *strategy) {
    umbo_optimizer_options options = bits(4);
    umbo_optimizer *lamb = NULL;
    training self = begin(strategy, 8);
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.state_bits");
    CHECK_OK(umbo_optimizer_create_lamb(strategy, NULL, &lamb));
    options = bits(8);
    CHECK_STATUS(umbo_optimizer_configure(lamb, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("state_bits");
    umbo_optimizer_release(lamb);
    train(&self, 1);
    CHECK_STATUS(umbo_optimizer_configure(self.optimizer, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("state_bits");
    CHECK_OK(umbo_optimizer_configure(self.optimizer, &options));
    train(&self, 1);
    end(&self);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    trained_and_saved(strategy);
    refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
