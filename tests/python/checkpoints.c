/* `checkpoints arrays FILE` writes FILE.npy and FILE.npz. `checkpoints save FILE` writes a checkpoint after some steps of Adam; `checkpoints load FILE` loads its
 * variables from a file of others and prints them. */
#include "../c/check.h"

static umbo_gradients *gradients;

static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
    umbo_view view;
    int64_t index;
    (void)args;
    (void)user_data;
    (void)result;
    UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
    for (index = 0; index < 6; index++) ((float *)view.mutable_data)[index] = (float)index;
    return umbo_gradients_submit_weighted(gradients, ctx, 1);
}

int main(int argc, char **argv) {
    const float start[6] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f};
    const int64_t shape[2] = {2, 3};
    float values[6];
    int index;
    umbo_strategy *strategy = make_strategy(2);
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, start);
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_variable *variable;
    umbo_optimizer *optimizer;
    umbo_checkpoint *checkpoint;
    if (argc != 3) return 2;
    if (strcmp(argv[1], "arrays") == 0) {
        const umbo_tensor *both[2];
        const char *const names[2] = {"first", "second"};
        char path[4200];
        both[0] = both[1] = initial;
        CHECK(snprintf(path, sizeof(path), "%s.npy", argv[2]) > 0);
        CHECK_OK(umbo_tensor_save(initial, path));
        CHECK(snprintf(path, sizeof(path), "%s.npz", argv[2]) > 0);
        CHECK_OK(umbo_tensor_save_all(2, names, both, path));
        umbo_tensor_release(initial);
        umbo_strategy_release(strategy);
        return finish();
    }
    options.loss_reduction = UMBO_LOSS_SUM;
    CHECK_OK(umbo_variable_create(strategy, "dense/kernel", initial, NULL, &variable));
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, &options, &gradients));
    CHECK_OK(umbo_optimizer_create_adam(strategy, NULL, &optimizer));
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, variable));
    CHECK_OK(umbo_checkpoint_add_optimizer(checkpoint, "adam", optimizer));
    CHECK_OK(umbo_checkpoint_set_number(checkpoint, "loss", 0.1));
    if (strcmp(argv[1], "save") == 0) {
        for (index = 0; index < 3; index++) {
            CHECK_OK(umbo_strategy_run(strategy, step, NULL, NULL, NULL, NULL));
            CHECK_OK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
        }
        CHECK_OK(umbo_checkpoint_save(checkpoint, argv[2]));
    } else {
        const char *const names[1] = {"dense/kernel"}, *const tensors[1] = {"encoder.weight"};
        CHECK_OK(umbo_checkpoint_load_weights(checkpoint, argv[2], 1, names, tensors));
    }
    CHECK_OK(umbo_variable_copy_to_host(variable, values, sizeof(values)));
    for (index = 0; index < 6; index++) printf("%.9g\n", (double)values[index]);
    umbo_checkpoint_release(checkpoint);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
    umbo_tensor_release(initial);
    umbo_strategy_release(strategy);
    return finish();
}
