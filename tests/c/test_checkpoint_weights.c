/* Checkpoints and weights in memory, and what options of a load choose, map and convert. */
#include "checkpoint_model.h"

static const char file[] = "test_checkpoint_weights.safetensors";

/* What a report says, one word after the other. */
struct account {
    char text[512];
};

static void note(const char *variable, const char *tensor, void *user_data) {
    struct account *account = (struct account *)user_data;
    const size_t used = strlen(account->text);
    (void)snprintf(account->text + used, sizeof(account->text) - used, "%s<-%s ",
                   variable != NULL ? variable : "-", tensor != NULL ? tensor : "-");
}

/* Cuts off what stands before the last point. */
static umbo_status last_name(const char *tensor, void *user_data, const char **variable) {
    const char *const point = strrchr(tensor, '.');
    (void)user_data;
    if (point != NULL) *variable = point + 1;
    return UMBO_OK;
}

static umbo_status no_name(const char *tensor, void *user_data, const char **variable) {
    (void)tensor, (void)user_data, (void)variable;
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "no names today", NULL, NULL);
}

/* What a checkpoint saves to memory; the caller frees it. */
static void *saved(const umbo_checkpoint *checkpoint, size_t *size) {
    char *bytes;
    size_t again = 0;
    CHECK_STATUS(umbo_checkpoint_save_to_memory(checkpoint, NULL, 0, size),
                 UMBO_STATUS_OUT_OF_RANGE);
    bytes = (char *)malloc(*size);
    CHECK_FAILS(umbo_checkpoint_save_to_memory(checkpoint, bytes, *size - 1, &again),
                UMBO_STATUS_OUT_OF_RANGE, "the checkpoint takes");
    CHECK(again == *size);
    CHECK_OK(umbo_checkpoint_save_to_memory(checkpoint, bytes, *size, &again));
    CHECK(again == *size);
    return bytes;
}

static void memory_has_the_bytes_of_a_file(void) {
    struct model a, b;
    float one[3], other[3];
    size_t size = 0, weights_size = 0;
    char *bytes, *of_file;
    FILE *stream;
    make(&a, 2);
    train(&a, 4);
    bytes = (char *)saved(a.checkpoint, &size);
    CHECK_OK(umbo_checkpoint_save(a.checkpoint, file));
    of_file = (char *)malloc(size + 1);
    stream = fopen(file, "rb");
    CHECK(stream != NULL && fread(of_file, 1, size + 1, stream) == size);
    CHECK(fclose(stream) == 0 && memcmp(bytes, of_file, size) == 0);
    make(&b, 2);
    CHECK_OK(umbo_checkpoint_restore_from_memory(b.checkpoint, bytes, size));
    train(&a, 3);
    train(&b, 3);
    CHECK_OK(umbo_variable_download(a.weights, one, sizeof(one)));
    CHECK_OK(umbo_variable_download(b.weights, other, sizeof(other)));
    CHECK(memcmp(one, other, sizeof(one)) == 0);
    CHECK_FAILS(umbo_checkpoint_restore_from_memory(b.checkpoint, bytes, size - 1),
                UMBO_STATUS_DATA_LOSS, "'data': damaged");
    CHECK_FAILS(umbo_checkpoint_restore_from_memory(b.checkpoint, NULL, 0), UMBO_STATUS_DATA_LOSS,
                "there are no bytes");
    CHECK_FAILS(umbo_checkpoint_restore_from_memory(b.checkpoint, NULL, size),
                UMBO_STATUS_INVALID_ARGUMENT, "data");
    CHECK_OK(umbo_checkpoint_load_weights_from_memory(b.checkpoint, bytes, size, NULL));
    CHECK_OK(umbo_checkpoint_save_weights_to_memory(b.checkpoint, NULL, bytes, size, &weights_size));
    CHECK(weights_size < size);
    CHECK_FAILS(umbo_checkpoint_restore_from_memory(b.checkpoint, bytes, weights_size),
                UMBO_STATUS_INVALID_ARGUMENT, "no optimizer");
    free(of_file);
    free(bytes);
    release(&b);
    release(&a);
    CHECK(remove(file) == 0);
}

/* Files of float64 for variables of float32: names, types and what is left. */
static void options_choose(void) {
    const float zeros[3] = {0, 0, 0};
    const double wide[3] = {0.1, 1e300, -3};
    const int64_t shape[1] = {3};
    const char *const added[2] = {"net.weights", "net.more"};
    const char *const names[1] = {"weights"}, *const tensors[1] = {"net.more"};
    umbo_load_weights_options options = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
    struct account account;
    umbo_strategy *strategy = make_strategy(1);
    umbo_checkpoint *from, *to;
    umbo_variable *variables[4];
    umbo_tensor *doubles = make_tensor(UMBO_DTYPE_FLOAT64, 1, shape, wide);
    umbo_tensor *floats = make_floats(3, zeros);
    float loaded[3];
    char bytes[4096];
    size_t size = 0;
    int32_t index;
    CHECK_OK(umbo_checkpoint_create(strategy, &from));
    CHECK_OK(umbo_checkpoint_create(strategy, &to));
    for (index = 0; index < 2; index++) {
        CHECK_OK(umbo_variable_create(strategy, added[index], doubles, NULL, &variables[index]));
        CHECK_OK(umbo_checkpoint_add_variable(from, NULL, variables[index]));
    }
    CHECK_OK(umbo_variable_create(strategy, "weights", floats, NULL, &variables[2]));
    CHECK_OK(umbo_variable_create(strategy, "bias", floats, NULL, &variables[3]));
    CHECK_OK(umbo_checkpoint_add_variable(to, NULL, variables[2]));
    CHECK_OK(umbo_checkpoint_add_variable(to, NULL, variables[3]));
    CHECK_OK(umbo_checkpoint_save_weights_to_memory(from, NULL, bytes, sizeof(bytes), &size));

    options.prefix = "net.";
    options.allow_missing = 1;
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "is float32 here, float64 in the file");
    options.convert_floats = 1;
    options.report = note;
    options.report_user_data = &account;
    account.text[0] = 0;
    CHECK_OK(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options));
    CHECK(strcmp(account.text, "weights<-net.weights bias<-- -<-net.more ") == 0);
    CHECK_OK(umbo_variable_download(variables[2], loaded, sizeof(loaded)));
    CHECK(loaded[0] == 0.1f && loaded[1] > 3e38f && loaded[2] == -3);
    options.allow_missing = 0;
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "no tensor 'net.bias'");

    options.map_name = last_name;
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "options.map_name: is given along with");
    options.prefix = NULL;
    options.count = 1;
    options.names = names;
    account.text[0] = 0;
    CHECK_OK(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options));
    CHECK(strcmp(account.text, "weights<-net.weights -<-net.more ") == 0);
    options.map_name = no_name;
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options),
                UMBO_STATUS_ABORTED, "no names today");
    options.map_name = NULL;
    options.tensor_names = tensors;
    account.text[0] = 0;
    CHECK_OK(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options));
    CHECK(strcmp(account.text, "weights<-net.more -<-net.weights ") == 0);
    options.convert_floats = 2;
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(to, bytes, size, &options),
                UMBO_STATUS_INVALID_ARGUMENT, "options.convert_floats: 2");

    for (index = 0; index < 4; index++) umbo_variable_release(variables[index]);
    umbo_tensor_release(floats);
    umbo_tensor_release(doubles);
    umbo_checkpoint_release(to);
    umbo_checkpoint_release(from);
    umbo_strategy_release(strategy);
}

/* Weights in 16 bits, in one file, in memory, and in two files with an index. */
static void exports(void) {
    const char *const index = "test_checkpoint_weights.safetensors.index.json";
    umbo_save_weights_options how = UMBO_SAVE_WEIGHTS_OPTIONS_INIT;
    umbo_load_weights_options convert = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
    const float large[3] = {1, 70000, 1.0009765625f};
    float loaded[3] = {0, 0, 0};
    struct model a;
    char bytes[1024];
    size_t size = 0;
    make(&a, 2);
    convert.convert_floats = 1;
    CHECK_OK(umbo_variable_upload(a.weights, large, sizeof(large)));
    how.float_dtype = UMBO_DTYPE_FLOAT16;
    CHECK_FAILS(umbo_checkpoint_save_weights(a.checkpoint, file, &how), UMBO_STATUS_INVALID_ARGUMENT,
                "options.float_dtype: float16, in which element 1");
    how.float_dtype = UMBO_DTYPE_INT8;
    CHECK_FAILS(umbo_checkpoint_save_weights(a.checkpoint, file, &how), UMBO_STATUS_INVALID_ARGUMENT,
                "options.float_dtype: int8; must be float16");
    how.float_dtype = UMBO_DTYPE_BFLOAT16;
    CHECK_OK(umbo_checkpoint_save_weights(a.checkpoint, file, &how));
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, file, &convert));
    CHECK_OK(umbo_variable_download(a.weights, loaded, sizeof(loaded)));
    CHECK(loaded[0] == 1 && loaded[1] == 70144 && loaded[2] == 1);
    CHECK_OK(umbo_checkpoint_save_weights_to_memory(a.checkpoint, &how, bytes, sizeof(bytes), &size));
    train(&a, 1);
    CHECK_FAILS(umbo_checkpoint_load_weights_from_memory(a.checkpoint, bytes, size, NULL),
                UMBO_STATUS_INVALID_ARGUMENT, "bfloat16 in the file");
    CHECK_OK(umbo_checkpoint_load_weights_from_memory(a.checkpoint, bytes, size, &convert));
    CHECK_OK(umbo_variable_download(a.weights, loaded, sizeof(loaded)));
    CHECK(loaded[0] == 1 && loaded[1] == 70144 && loaded[2] == 1);
    how.max_file_bytes = 4;
    CHECK_FAILS(umbo_checkpoint_save_weights(a.checkpoint, file, &how), UMBO_STATUS_INVALID_ARGUMENT,
                "options.max_file_bytes: is given, and");
    CHECK_FAILS(umbo_checkpoint_save_weights_to_memory(a.checkpoint, &how, bytes, sizeof(bytes), &size),
                UMBO_STATUS_INVALID_ARGUMENT, "options.max_file_bytes: is given, and memory");
    CHECK_OK(umbo_checkpoint_save_weights(a.checkpoint, index, &how));
    train(&a, 1);
    CHECK_OK(umbo_checkpoint_load_weights(a.checkpoint, index, &convert));
    CHECK_OK(umbo_variable_download(a.weights, loaded, sizeof(loaded)));
    CHECK(loaded[0] == 1 && loaded[1] == 70144 && loaded[2] == 1);
    release(&a);
    CHECK(remove(file) == 0 && remove(index) == 0);
}

int main(void) {
    memory_has_the_bytes_of_a_file();
    options_choose();
    exports();
    return finish();
}
