/* How many replicas the next step is to have, by the times of those before. */
#include <math.h>

#include "check.h"

enum { EACH = 48, MOST = 24 * EACH };

static char said[512];
static int messages = 0;

static void keep_message(umbo_log_level level, const char *message, void *user_data) {
    (void)user_data;
    CHECK(level == UMBO_LOG_INFO);
    strncpy(said, message, sizeof(said) - 1);
    messages++;
}

/* The least time of a step with so many replicas, whose part of it is `shared`, and the rest is each one's. */
static double time_with(int64_t replicas, double shared, double each) {
    return shared / (double)replicas + each * (double)replicas;
}

/* Asks after each step until a number stays, which is returned. */
static int64_t chosen(int64_t first, double shared, double each, int64_t *steps) {
    static double seconds[MOST];
    int64_t replicas = 0, count = 0, before = first;
    int32_t is_chosen = 0;
    for (;;) {
        CHECK_OK(umbo_replica_choice_count(first, count, count == 0 ? NULL : seconds, &replicas, &is_chosen));
        CHECK(replicas <= before || is_chosen == 1);
        CHECK(first % replicas == 0);
        if (is_chosen || count == MOST) break;
        before = replicas;
        seconds[count++] = time_with(replicas, shared, each);
    }
    *steps = count;
    /* Asked again, with more steps, it says the same, and logs nothing. */
    const int logged = messages;
    int64_t again = 0;
    char text[512];
    size_t length = 0;
    if (count > 0) {
        seconds[count] = 0;
        CHECK_OK(umbo_replica_choice_count(first, count + 1, seconds, &again, NULL));
        CHECK(again == replicas && messages == logged);
        CHECK_OK(umbo_replica_choice_text(first, count, seconds, text, sizeof(text), &length));
        CHECK(strstr(text, ": a step takes ") != NULL && strlen(text) == length);
        CHECK(strstr(said, text) != NULL);
    }
    return replicas;
}

static void is_chosen_by_times(void) {
    int64_t steps = 0;
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_INFO, keep_message, NULL, NULL));
    CHECK(chosen(1, 1, 1, &steps) == 1 && steps == 0 && messages == 0);
    CHECK(chosen(2, 1e-3, 0, &steps) == 2 && steps == 2 * EACH && messages == 1);
    CHECK(strcmp(said, "the training continues with 2 replicas: a step takes 500 \xc2\xb5s with 2 replicas, "
                       "1.00 ms with 1 replica") == 0);
    CHECK(chosen(12, 0, 1e-3, &steps) == 1 && steps == 6 * EACH && messages == 2);
    CHECK(chosen(16, 240, 10, &steps) == 4 && steps == 4 * EACH && messages == 3);
    CHECK(chosen(7, 0, 1, &steps) == 1 && steps == 2 * EACH && messages == 4);
    expect_no_messages();
}

static void mistakes_are_named(void) {
    double seconds[3] = {1, 2, 3};
    int64_t replicas = -7;
    int32_t is_chosen = -7;
    char text[64];
    size_t length = 0;
    const double wrong[4] = {-1, (double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int at = 0; at < 4; ++at) {
        seconds[2] = wrong[at];
        CHECK_STATUS(umbo_replica_choice_count(2, 3, seconds, &replicas, &is_chosen), UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("seconds: element 2 is");
        CHECK_STATUS(umbo_replica_choice_text(2, 3, seconds, text, sizeof(text), &length), UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("finite and at least 0");
    }
    const int64_t counts[4] = {0, 1025, INT64_MAX, UMBO_AUTO};
    for (int at = 0; at < 4; ++at) {
        CHECK_STATUS(umbo_replica_choice_count(counts[at], 2, seconds, &replicas, &is_chosen), UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("1 to 1024 replicas are possible");
    }
    CHECK_STATUS(umbo_replica_choice_count(2, -1, seconds, &replicas, &is_chosen), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("step_count: -1");
    CHECK_STATUS(umbo_replica_choice_count(2, 2, NULL, &replicas, &is_chosen), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("seconds");
    CHECK_STATUS(umbo_replica_choice_count(2, 2, seconds, NULL, &is_chosen), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("replica_count");
    CHECK(replicas == -7 && is_chosen == -7);
    CHECK_OK(umbo_replica_choice_text(2, 2, seconds, text, sizeof(text), &length));
    CHECK(strcmp(text, "2 replicas: nothing was measured") == 0);
}

int main(void) {
    is_chosen_by_times();
    mistakes_are_named();
    return finish();
}
