/* Cluster resolvers: TF_CONFIG as text and as environment variable. */
#if !defined(_POSIX_C_SOURCE)
#define _POSIX_C_SOURCE 200112L /* setenv */
#endif
#include "check.h"

static const char *const cluster =
    "{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"], \"ps\": {\"7\": \"d:4\", \"3\": \"c:3\"}},"
    " \"task\": {\"type\": \"worker\", \"index\": 1}, \"environment\": \"cloud\"}";

static umbo_cluster_resolver *resolver_from(const char *text) {
    umbo_cluster_resolver *resolver = NULL;
    CHECK_OK(umbo_cluster_resolver_from_tf_config(text, &resolver));
    return resolver;
}

static umbo_cluster_resolver_info facts_of_cluster(const umbo_cluster_resolver *resolver) {
    umbo_cluster_resolver_info info = UMBO_CLUSTER_RESOLVER_INFO_INIT;
    CHECK_OK(umbo_cluster_resolver_get_info(resolver, &info));
    return info;
}

static void check_job(const umbo_cluster_resolver *resolver, int64_t index, const char *expected,
                      int64_t expected_count) {
    int64_t count = -1;
    const char *name = NULL;
    CHECK_OK(umbo_cluster_resolver_job(resolver, index, &name, &count));
    CHECK(count == expected_count && strcmp(name, expected) == 0);
}

static void check_task(const umbo_cluster_resolver *resolver, const char *job, int64_t index,
                       int64_t expected_number, const char *expected_address) {
    int64_t number = -1;
    const char *address = NULL;
    CHECK_OK(umbo_cluster_resolver_task(resolver, job, index, &number, &address));
    CHECK(number == expected_number && strcmp(address, expected_address) == 0);
}

static void check_cluster(const umbo_cluster_resolver *resolver) {
    const umbo_cluster_resolver_info info = facts_of_cluster(resolver);
    int64_t number = 0;
    const char *name = NULL;
    CHECK(info.job_count == 2 && strcmp(info.task_type, "worker") == 0 && info.task_index == 1);
    CHECK(info.rank == 1 && info.rank_count == 2);
    check_job(resolver, 0, "ps", 2); /* in alphabetical order */
    check_job(resolver, 1, "worker", 2);
    CHECK_STATUS(umbo_cluster_resolver_job(resolver, 2, &name, &number), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_cluster_resolver_job(resolver, -1, &name, &number), UMBO_STATUS_OUT_OF_RANGE);
    check_task(resolver, "worker", 0, 0, "a:1");
    check_task(resolver, "worker", 1, 1, "b:2");
    check_task(resolver, "ps", 0, 3, "c:3"); /* in the order of their numbers */
    check_task(resolver, "ps", 1, 7, "d:4");
    CHECK_STATUS(umbo_cluster_resolver_task(resolver, "ps", 2, &number, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_cluster_resolver_task(resolver, "chief", 0, &number, &name), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("chief");
}

static void check_empty(umbo_cluster_resolver *resolver) {
    const umbo_cluster_resolver_info info = facts_of_cluster(resolver);
    CHECK(info.job_count == 0 && info.task_type == NULL && info.task_index == UMBO_NONE);
    umbo_cluster_resolver_release(resolver);
}

static void texts(void) {
    umbo_cluster_resolver *resolver = resolver_from(cluster);
    umbo_cluster_resolver *second = NULL;
    check_cluster(resolver);
    CHECK_OK(umbo_cluster_resolver_retain(resolver, &second));
    umbo_cluster_resolver_release(second);
    umbo_cluster_resolver_release(resolver);
    check_empty(resolver_from("{}"));
    resolver = resolver_from("{\"cluster\": {\"worker\": [\"a:1\"]},"
                             " \"task\": {\"type\": \"evaluator\", \"index\": 0}}");
    CHECK(strcmp(facts_of_cluster(resolver).task_type, "evaluator") == 0); /* need not be in the cluster */
    umbo_cluster_resolver_release(resolver);
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

int main(void) {
    texts();
    environment();
    return finish();
}
