/* Cluster resolvers: TF_CONFIG as text and as environment variable, and a strategy's own. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200112L /* setenv */
#endif
#include "check.h"

#include <umbo/tensorflow.h>

static const char *const cluster =
    "{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"], \"ps\": {\"7\": \"d:4\", \"3\": \"c:3\"}},"
    " \"task\": {\"type\": \"worker\", \"index\": 1}, \"environment\": \"cloud\"}";

static umbo_cluster_resolver *resolver_from(const char *text) {
    umbo_cluster_resolver *resolver = NULL;
    CHECK_OK(umbo_cluster_resolver_from_tf_config(text, &resolver));
    return resolver;
}

static void check_task(const umbo_cluster_resolver *resolver, const char *job, int32_t position,
                       int64_t expected_index, const char *expected_address) {
    int64_t index = -1;
    const char *address = NULL;
    CHECK_OK(umbo_cluster_resolver_task(resolver, job, position, &index, &address));
    CHECK(index == expected_index && strcmp(address, expected_address) == 0);
}

static void check_cluster(const umbo_cluster_resolver *resolver) {
    int64_t count = 0;
    int64_t index = 0;
    const char *name = NULL;
    CHECK_OK(umbo_cluster_resolver_job_count(resolver, &count));
    CHECK(count == 2);
    CHECK_OK(umbo_cluster_resolver_job_name(resolver, 0, &name)); /* in alphabetical order */
    CHECK(strcmp(name, "ps") == 0);
    CHECK_OK(umbo_cluster_resolver_job_name(resolver, 1, &name));
    CHECK(strcmp(name, "worker") == 0);
    CHECK_STATUS(umbo_cluster_resolver_job_name(resolver, 2, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_cluster_resolver_job_name(resolver, -1, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_OK(umbo_cluster_resolver_task_count(resolver, "worker", &count));
    CHECK(count == 2);
    CHECK_STATUS(umbo_cluster_resolver_task_count(resolver, "chief", &count), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("chief");
    check_task(resolver, "worker", 0, 0, "a:1");
    check_task(resolver, "worker", 1, 1, "b:2");
    check_task(resolver, "ps", 0, 3, "c:3"); /* in the order of their numbers */
    check_task(resolver, "ps", 1, 7, "d:4");
    CHECK_STATUS(umbo_cluster_resolver_task(resolver, "ps", 2, &index, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_cluster_resolver_task(resolver, "chief", 0, &index, &name), UMBO_STATUS_NOT_FOUND);
    CHECK_OK(umbo_cluster_resolver_task_type(resolver, &name));
    CHECK(strcmp(name, "worker") == 0);
    CHECK_OK(umbo_cluster_resolver_task_index(resolver, &index));
    CHECK(index == 1);
}

static void check_empty(umbo_cluster_resolver *resolver) {
    int64_t count = -1;
    int64_t index = 0;
    const char *type = "x";
    CHECK_OK(umbo_cluster_resolver_job_count(resolver, &count));
    CHECK_OK(umbo_cluster_resolver_task_type(resolver, &type));
    CHECK_OK(umbo_cluster_resolver_task_index(resolver, &index));
    CHECK(count == 0 && type == NULL && index == -1);
    umbo_cluster_resolver_release(resolver);
}

static void texts(void) {
    umbo_cluster_resolver *resolver = resolver_from(cluster);
    const char *type = NULL;
    check_cluster(resolver);
    umbo_cluster_resolver_release(resolver);
    check_empty(resolver_from("{}"));
    resolver = resolver_from("{\"cluster\": {\"worker\": [\"a:1\"]},"
                             " \"task\": {\"type\": \"evaluator\", \"index\": 0}}");
    CHECK_OK(umbo_cluster_resolver_task_type(resolver, &type)); /* need not be in the cluster */
    CHECK(strcmp(type, "evaluator") == 0);
    umbo_cluster_resolver_release(resolver);
}

static void refused(void) {
    static const char *const wrong[] = {
        "",
        "{",
        "[]",
        "{\"cluster\": 1}",
        "{\"cluster\": {\"worker\": \"a:1\"}}",
        "{\"cluster\": {\"worker\": [1]}}",
        "{\"cluster\": {\"worker\": {\"x\": \"a:1\"}}}",
        "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 1}}",
        "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"chief\", \"index\": 0}}",
        "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": -1}}",
    };
    umbo_cluster_resolver *resolver = NULL;
    int32_t index;
    for (index = 0; index < COUNT_OF(wrong); index++) {
        if (umbo_cluster_resolver_from_tf_config(wrong[index], &resolver) !=
            UMBO_STATUS_INVALID_ARGUMENT) {
            check_failed(__FILE__, __LINE__, wrong[index]);
        }
    }
    CHECK_STATUS(umbo_cluster_resolver_from_tf_config("{\n  oops}", &resolver),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("line 2"); /* the place */
    CHECK(resolver == NULL);
}

static void environment(void) {
    umbo_cluster_resolver *resolver;
    CHECK(unsetenv("TF_CONFIG") == 0);
    check_empty(resolver_from(NULL));
    CHECK(setenv("TF_CONFIG", cluster, 1) == 0);
    resolver = resolver_from(NULL);
    check_cluster(resolver);
    umbo_cluster_resolver_release(resolver);
    CHECK(setenv("TF_CONFIG", "{", 1) == 0);
    resolver = NULL;
    CHECK_STATUS(umbo_cluster_resolver_from_tf_config(NULL, &resolver), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("TF_CONFIG");
    CHECK(resolver == NULL);
    CHECK(setenv("TF_CONFIG", cluster, 1) == 0);
}

/* What launchers say, alone and beside TF_CONFIG. */
static void launchers(void) {
    umbo_cluster_resolver *resolver = NULL;
    int64_t rank = 7, size = 7;
    CHECK(unsetenv("OMPI_COMM_WORLD_RANK") == 0 && unsetenv("OMPI_COMM_WORLD_SIZE") == 0);
    CHECK(unsetenv("SLURM_PROCID") == 0 && unsetenv("PMIX_RANK") == 0);
    CHECK(unsetenv("TF_CONFIG") == 0 && unsetenv("PMI_RANK") == 0);
    CHECK_OK(umbo_cluster_resolver_from_environment(&resolver));
    CHECK_OK(umbo_cluster_resolver_rank(resolver, &rank, &size));
    CHECK(rank == -1 && size == 0);
    umbo_cluster_resolver_release(resolver);
    CHECK(setenv("PMI_RANK", "1", 1) == 0 && setenv("PMI_SIZE", "2", 1) == 0);
    CHECK_OK(umbo_cluster_resolver_from_environment(&resolver));
    CHECK_OK(umbo_cluster_resolver_rank(resolver, &rank, &size));
    CHECK(rank == 1 && size == 2);
    umbo_cluster_resolver_release(resolver);
    CHECK(setenv("TF_CONFIG", cluster, 1) == 0); /* agrees: worker 1 of 2 */
    CHECK_OK(umbo_cluster_resolver_from_environment(&resolver));
    check_cluster(resolver);
    umbo_cluster_resolver_release(resolver);
    CHECK(setenv("PMI_RANK", "0", 1) == 0);
    resolver = NULL;
    CHECK_STATUS(umbo_cluster_resolver_from_environment(&resolver), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("TF_CONFIG: says rank 1 of 2, and the launcher's variables say rank 0 of 2");
    CHECK(setenv("OMPI_COMM_WORLD_RANK", "1", 1) == 0 && setenv("OMPI_COMM_WORLD_SIZE", "2", 1) == 0);
    CHECK_STATUS(umbo_cluster_resolver_from_environment(&resolver), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("PMI_RANK: says rank 0 of 2 (PMI_SIZE), and OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE");
    CHECK(resolver == NULL);
    CHECK(unsetenv("OMPI_COMM_WORLD_RANK") == 0 && unsetenv("OMPI_COMM_WORLD_SIZE") == 0);
    CHECK(unsetenv("PMI_RANK") == 0 && unsetenv("PMI_SIZE") == 0);
}

/* A strategy has the resolver that it was made with, and none otherwise. */
static void of_a_strategy(void) {
    umbo_cluster_resolver *resolver = resolver_from(cluster), *found = NULL;
    umbo_strategy *strategy = NULL, *copy = NULL, *without = make_strategy(1);
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cluster_resolver = resolver;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_cluster_resolver_release(resolver); /* the strategy keeps a reference */
    CHECK_OK(umbo_strategy_cluster_resolver(strategy, &found));
    check_cluster(found);
    CHECK_OK(umbo_cluster_resolver_retain(found, &resolver));
    umbo_cluster_resolver_release(found);
    found = resolver;
    check_cluster(found);
    umbo_cluster_resolver_release(found);
    CHECK_OK(umbo_strategy_copy(strategy, &copy));
    umbo_strategy_release(strategy);
    CHECK_OK(umbo_strategy_cluster_resolver(copy, &found));
    check_cluster(found);
    umbo_cluster_resolver_release(found);
    umbo_strategy_release(copy);
    CHECK_OK(umbo_strategy_cluster_resolver(without, &found)); /* whatever the environment says */
    CHECK(found == NULL);
    umbo_strategy_release(without);
}

int main(void) {
    texts();
    refused();
    environment();
    launchers();
    of_a_strategy();
    return finish();
}
