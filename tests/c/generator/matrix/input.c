/* -- umbo_map_fn */

static umbo_status probing_map(const umbo_value *element, void *user_data, umbo_value **result) {
    probe_once(user_data, NULL);
    return umbo_value_retain(element, result);
}

/* Four scalars. */
static umbo_dataset *four_elements(void) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(0, 4, 1, &dataset));
    return dataset;
}

/* Takes all elements of an iterator, and gives the dataset up. */
static void take_all(struct scene *scene, umbo_dataset *dataset, int prefetch, int resets) {
    umbo_dataset *prefetched = NULL;
    umbo_iterator *own = NULL;
    int gone;
    if (prefetch) {
        CHECK_OK(umbo_dataset_retain(dataset, &prefetched));
        CHECK_OK(umbo_dataset_prefetch(&prefetched, 2));
        umbo_dataset_release(dataset);
        dataset = prefetched;
    }
    CHECK_OK(umbo_iterator_from_dataset(dataset, &own));
    umbo_dataset_release(dataset);
    scene->own = own;
    scene->keeps_own = prefetch;
    for (; resets >= 0; resets--) {
        int32_t has_value = 1;
        int attempts = 0;
        while (has_value && attempts++ < 16) {
            umbo_value *element = NULL;
            if (umbo_iterator_next_as_optional(own, &has_value, &element) != UMBO_OK) continue;
            umbo_value_release(element);
            if (resets > 0) break;
        }
        if (resets > 0) umbo_ignore(umbo_iterator_reset(own));
    }
    /* The call may have given it up in place of the other one. */
    gone = entered && !scene->keeps_own && functions[first_function].gives_up == offsetof(struct objects, iterator);
    umbo_iterator_release(gone ? scene->good.iterator : own);
    scene->own = NULL;
}

static void map(struct scene *scene, int parallel, int prefetch) {
    umbo_dataset *source = four_elements(), *mapped = NULL;
    umbo_map_options options = UMBO_MAP_OPTIONS_INIT;
    options.parallel_call_count = parallel;
    CHECK_OK(umbo_dataset_retain(source, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, probing_map, scene, NULL, &options));
    umbo_dataset_release(source);
    take_all(scene, mapped, prefetch, 1);
}

static void a_map(struct scene *scene) { map(scene, 1, 0); }
static void a_parallel_map(struct scene *scene) { map(scene, 2, 0); }
static void a_prefetched_map(struct scene *scene) { map(scene, 1, 1); }
static void a_prefetched_parallel_map(struct scene *scene) { map(scene, 2, 1); }

static void the_destroy_of_a_map(struct scene *scene) {
    umbo_dataset *source = four_elements(), *mapped = NULL;
    CHECK_OK(umbo_dataset_retain(source, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, good_map_fn, scene, probing_destroy, NULL));
    umbo_dataset_release(source);
    umbo_dataset_release(mapped);
}

/* -- umbo_filter_fn */

static umbo_status probing_filter(const umbo_value *element, void *user_data, int32_t *keep) {
    (void)element;
    probe_once(user_data, NULL);
    *keep = 1;
    return UMBO_OK;
}

static void filter(struct scene *scene, int prefetch) {
    umbo_dataset *filtered = four_elements();
    CHECK_OK(umbo_dataset_filter(&filtered, probing_filter, scene, NULL));
    take_all(scene, filtered, prefetch, 1);
}

static void a_filter(struct scene *scene) { filter(scene, 0); }
static void a_prefetched_filter(struct scene *scene) { filter(scene, 1); }

/* -- umbo_generator_begin_fn, umbo_generator_next_fn, umbo_generator_reset_fn,
 * umbo_generator_end_fn */

static umbo_status /* umbo_generator_begin_fn */ begin_pass(void *user_data, void **pass) {
    struct scene *scene = user_data;
    *pass = scene;
    scene->left = 3;
    if (scene->part == BEGIN) probe_once(scene, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_generator_next_fn */ next_of_pass(void *pass, void *user_data,
                                                             umbo_value **element) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->part == NEXT) probe_once(scene, NULL);
    if (scene->left-- <= 0) return UMBO_OK;
    *element = float_value(1);
    return UMBO_OK;
}

static umbo_status /* umbo_generator_reset_fn */ reset_pass(void *pass, void *user_data) {
    struct scene *scene = user_data;
    (void)pass;
    scene->left = 3;
    if (scene->part == RESET) probe_once(scene, NULL);
    return UMBO_OK;
}

static void /* umbo_generator_end_fn */ end_pass(void *pass, void *user_data) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->part == END) probe_once(scene, NULL);
}

static umbo_dataset *generated(struct scene *scene, umbo_destroy_fn destroy) {
    umbo_dataset *dataset = NULL;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    generator.begin = begin_pass;
    generator.next = next_of_pass;
    /* Without it a pass is ended and another begun. */
    if (scene->part != END) generator.reset = reset_pass;
    generator.end = end_pass;
    CHECK_OK(umbo_dataset_from_generator(scene->good.element_spec, &generator, scene, destroy,
                                         &dataset));
    return dataset;
}

static void generate(struct scene *scene, int part, int prefetch) {
    scene->part = part;
    take_all(scene, generated(scene, NULL), prefetch, 2);
}

static void the_begin_of_a_generator(struct scene *scene) { generate(scene, BEGIN, 0); }
static void the_next_of_a_generator(struct scene *scene) { generate(scene, NEXT, 0); }
static void the_reset_of_a_generator(struct scene *scene) { generate(scene, RESET, 0); }
static void the_end_of_a_generator(struct scene *scene) { generate(scene, END, 0); }
static void the_begin_of_a_prefetched_generator(struct scene *scene) { generate(scene, BEGIN, 1); }
static void the_next_of_a_prefetched_generator(struct scene *scene) { generate(scene, NEXT, 1); }
static void the_reset_of_a_prefetched_generator(struct scene *scene) { generate(scene, RESET, 1); }
static void the_end_of_a_prefetched_generator(struct scene *scene) { generate(scene, END, 1); }

static void the_destroy_of_a_generator(struct scene *scene) {
    umbo_dataset_release(generated(scene, probing_destroy));
}

static void the_next_of_a_distributed_generator(struct scene *scene) {
    umbo_dataset *source = NULL, *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *own = NULL;
    umbo_value *element = NULL;
    scene->part = NEXT;
    source = generated(scene, NULL);
    CHECK_OK(umbo_dataset_retain(source, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 2, 0));
    umbo_dataset_release(source);
    CHECK_OK(umbo_strategy_distribute_dataset(scene->good.strategy, batches, NULL, &distributed));
    umbo_dataset_release(batches);
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &own));
    umbo_distributed_dataset_release(distributed);
    scene->own = own;
    scene->keeps_own = 1;
    umbo_ignore(umbo_iterator_next(own, &element));
    umbo_value_release(element);
    umbo_iterator_release(own);
    scene->own = NULL;
}

static umbo_status next_is_foreign(void *pass, void *user_data, umbo_value **element) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->left-- <= 0) return UMBO_OK;
    *element = into_value(foreign_tensor(scene));
    return UMBO_OK;
}

/* The elements wait in a buffer and are dropped by a reset. */
static void drop_from_a_buffer(struct scene *scene, int prefetch) {
    umbo_dataset *source = NULL, *buffered = NULL;
    umbo_element_spec *spec = NULL;
    umbo_iterator *own = NULL;
    umbo_value *element = NULL;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    generator.begin = begin_pass;
    generator.next = next_is_foreign;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 1, sizes, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, scene, NULL, &source));
    umbo_element_spec_release(spec);
    if (prefetch) {
        CHECK_OK(umbo_dataset_retain(source, &buffered));
        CHECK_OK(umbo_dataset_prefetch(&buffered, 2));
    } else {
        umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
        options.buffer_capacity = 3;
        CHECK_OK(umbo_dataset_retain(source, &buffered));
        CHECK_OK(umbo_dataset_shuffle(&buffered, &options));
    }
    umbo_dataset_release(source);
    CHECK_OK(umbo_iterator_from_dataset(buffered, &own));
    umbo_dataset_release(buffered);
    umbo_ignore(umbo_iterator_next(own, &element));
    usleep(prefetch ? 300 : 0);
    scene->own = own;
    scene->keeps_own = 1;
    umbo_ignore(umbo_iterator_reset(own));
    scene->own = NULL;
    umbo_value_release(element);
    umbo_iterator_release(own);
}

static void the_destroy_of_a_prefetched_element(struct scene *scene) {
    drop_from_a_buffer(scene, 1);
}
static void the_destroy_of_a_shuffled_element(struct scene *scene) {
    drop_from_a_buffer(scene, 0);
}

/* -- umbo_open_file_fn */

static umbo_status probing_open(const char *path, int64_t number, void *user_data, umbo_dataset **dataset) {
    CHECK(strcmp(path, number == 0 ? "one" : "other") == 0);
    probe_once(user_data, NULL);
    *dataset = four_elements();
    return UMBO_OK;
}

/* A dataset of two files. With a spec of their elements the first one is not opened before it is read. */
static umbo_dataset *two_files(struct scene *scene, int with_spec, umbo_destroy_fn destroy) {
    static const char *const paths[] = {"one", "other"};
    umbo_files_options options = UMBO_FILES_OPTIONS_INIT;
    umbo_element_spec *spec = NULL;
    umbo_dataset *files = NULL;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    if (with_spec) options.element_spec = spec;
    CHECK_OK(umbo_dataset_from_files(2, paths, destroy != NULL ? good_open_file_fn : probing_open, scene,
                                     destroy, &options, &files));
    umbo_element_spec_release(spec);
    return files;
}

static void the_opening_of_the_first_file(struct scene *scene) {
    umbo_dataset_release(two_files(scene, 0, NULL));
}

static void the_opening_of_files(struct scene *scene) { take_all(scene, two_files(scene, 1, NULL), 0, 1); }
static void the_opening_of_prefetched_files(struct scene *scene) {
    take_all(scene, two_files(scene, 1, NULL), 1, 1);
}
static void the_destroy_of_files(struct scene *scene) {
    umbo_dataset_release(two_files(scene, 1, probing_destroy));
}

/* -- umbo_dataset_fn */

static umbo_status probing_dataset(const umbo_input_context *context, void *user_data,
                                   umbo_dataset **dataset) {
    (void)context;
    probe_once(user_data, NULL);
    *dataset = four_elements();
    return UMBO_OK;
}

static void a_dataset_function(struct scene *scene) {
    umbo_distributed_dataset *distributed = NULL;
    umbo_ignore(umbo_strategy_distribute_datasets_from_function(scene->good.strategy,
                                                                probing_dataset, scene, NULL,
                                                                &distributed));
    umbo_distributed_dataset_release(distributed);
}

