/* -- umbo_communicator_all_to_all_fn and what stands beside it in umbo_communicator_functions */

static umbo_status /* umbo_communicator_all_to_all_fn */ all_to_all_alone(
    const size_t *send_bytes, const void *send, const size_t *receive_bytes, void *user_data,
    void *receive) {
    struct scene *scene = user_data;
    if (scene->part == ALL_TO_ALL) probe(scene, NULL, NULL);
    return good_communicator_all_to_all_fn(send_bytes, send, receive_bytes, NULL, receive);
}

static umbo_status /* umbo_communicator_all_gather_fn */ all_gather_alone(const size_t *bytes,
                                                                         const void *send,
                                                                         void *user_data,
                                                                         void *receive) {
    struct scene *scene = user_data;
    if (scene->part == ALL_GATHER) probe(scene, NULL, NULL);
    return good_communicator_all_gather_fn(bytes, send, NULL, receive);
}

static umbo_status /* umbo_communicator_broadcast_fn */ broadcast_alone(int64_t root, size_t bytes,
                                                                        void *user_data, void *data) {
    struct scene *scene = user_data;
    (void)data;
    (void)bytes;
    (void)root;
    if (scene->part == BROADCAST) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_communicator_vote_fn */ vote_alone(int64_t number, void *user_data,
                                                              int64_t *least, int64_t *greatest) {
    struct scene *scene = user_data;
    *least = *greatest = number;
    if (scene->part == VOTE) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_communicator_barrier_fn */ barrier_alone(void *user_data) {
    struct scene *scene = user_data;
    if (scene->part == BARRIER) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static void /* umbo_communicator_abort_fn */ abort_alone(const char *message, void *user_data) {
    struct scene *scene = user_data;
    (void)message;
    if (scene->part == ABORT) probe(scene, NULL, NULL);
}

static void communicate(struct scene *scene, int part, umbo_destroy_fn destroy) {
    const size_t bytes[1] = {sizeof(float)};
    const float sent = 1;
    float received = 0;
    int64_t least = 0, greatest = 0;
    umbo_communicator *communicator = NULL;
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    functions.all_to_all = all_to_all_alone;
    functions.all_gather = all_gather_alone;
    functions.broadcast = broadcast_alone;
    functions.vote = vote_alone;
    functions.barrier = barrier_alone;
    functions.abort = abort_alone;
    scene->part = part;
    CHECK_OK(umbo_communicator_create(&functions, scene, destroy, &communicator));
    umbo_ignore(umbo_communicator_all_to_all(communicator, bytes, &sent, bytes, &received));
    umbo_ignore(umbo_communicator_all_gather(communicator, bytes, &sent, &received));
    umbo_ignore(umbo_communicator_broadcast(communicator, 0, sizeof(received), &received));
    umbo_ignore(umbo_communicator_vote(communicator, 1, &least, &greatest));
    umbo_ignore(umbo_communicator_barrier(communicator));
    umbo_ignore(umbo_communicator_abort(communicator, "the end"));
    umbo_communicator_release(communicator);
}

static void an_all_to_all(struct scene *scene) { communicate(scene, ALL_TO_ALL, NULL); }
static void an_all_gather(struct scene *scene) { communicate(scene, ALL_GATHER, NULL); }
static void a_broadcast(struct scene *scene) { communicate(scene, BROADCAST, NULL); }
static void a_vote(struct scene *scene) { communicate(scene, VOTE, NULL); }
static void a_barrier(struct scene *scene) { communicate(scene, BARRIER, NULL); }
static void an_abort(struct scene *scene) { communicate(scene, ABORT, NULL); }
static void the_destroy_of_a_communicator(struct scene *scene) { communicate(scene, 0, probing_destroy); }

/* -- umbo_mpi_find_fn */

static void *find_nothing(const char *name, void *user_data) {
    (void)name;
    probe(user_data, NULL, NULL);
    return NULL;
}

static void a_search_for_mpi(struct scene *scene) {
    umbo_communicator *communicator = NULL;
    umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
    options.find = find_nothing;
    options.find_user_data = scene;
    umbo_ignore(umbo_communicator_create_mpi(numbers, &options, &communicator));
}

