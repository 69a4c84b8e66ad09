#define NPY_FILE "matrix.npy"
#define IDX_FILE "matrix.idx"
#define CHECKPOINT_FILE "matrix.safetensors"
#define OTHER_FILE "matrix_other.safetensors"

/* What a call may be given; made anew for each call. */
struct objects {
    /* HANDLES */
    umbo_variable *table;
    umbo_value *structure;
    umbo_value *variable_value;
    umbo_value *per_replica;
    umbo_tensor *indices;
    umbo_value *slices;
    umbo_value *table_slices;
    umbo_value *batch;
    umbo_dataset *batches;
    umbo_gradients *sparse_gradients;
    umbo_element_spec *structure_spec;
    umbo_optimizer *fresh_optimizer;
    umbo_variable *fresh_variable;
    umbo_optimizer *settled_optimizer;
    umbo_tensor *no_elements;
    const umbo_rows *rows;
};

#define NOTHING ((size_t)-1)
/* How many compute devices they are on: so many run at a time. */
static int64_t devices_in_use = REPLICAS;

static const char cluster[] =
    "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}";
static float numbers[16] = {1};
/* What a checkpoint saves to memory. */
static char checkpoint_bytes[8192];
static size_t checkpoint_length;
static umbo_view array_view;
static const char *const idx_file = IDX_FILE;
static const char *const two_gpus[2] = {"GPU:0", "GPU:1"};
/* Negative: CPUs compute. */
static long gpu_seed = -1;
static const int64_t sizes[1] = {1};
static const int32_t axes[1] = {0};
static const char *const texts[1] = {"x"};
static double cells_of_a_matrix[4];
static CHECK_MAYBE_UNUSED const char *names_of_metrics[16];

static void write_files(void) {
    static const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
    static const char npy[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
    static const float number = 1;
    FILE *file = fopen(IDX_FILE, "wb");
    size_t length;
    CHECK(file != NULL && fwrite(idx, sizeof(idx), 1, file) == 1 && fclose(file) == 0);
    file = fopen(NPY_FILE, "wb");
    CHECK(file != NULL && fwrite(npy, sizeof(npy) - 1, 1, file) == 1);
    for (length = sizeof(npy) - 1; length < 127; length++) CHECK(fputc(' ', file) == ' ');
    CHECK(fputc('\n', file) == '\n' && fwrite(&number, sizeof(number), 1, file) == 1);
    CHECK(fclose(file) == 0);
}

