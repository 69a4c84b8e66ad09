/* What steps spend their time on, and the trace, from C: the report, its figures, and what is refused. */
#include "check.h"

#define PATH "test_observe_trace.json"

static umbo_status a_span(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    umbo_trace_span_begin("inside");
    umbo_trace_span_end();
    return UMBO_OK;
}

static void count_errors(umbo_log_level level, const char *message, void *user_data) {
    CHECK(level == UMBO_LOG_ERROR && strstr(message, "umbo_trace_span_begin: name") != NULL);
    ++*(int *)user_data;
}

static umbo_status fails(umbo_replica_context *context, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
}

static void run(umbo_strategy *strategy, int steps) {
    for (; steps > 0; steps--) CHECK_OK(umbo_strategy_run(strategy, a_span, NULL, NULL, NULL, NULL));
}

/* The report may be asked for inside of a callback. */
static umbo_status asks(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    char text[8192];
    size_t length = 0;
    (void)context;
    (void)args;
    (void)result;
    return umbo_strategy_step_report((umbo_strategy *)user_data, text, sizeof(text), &length, NULL);
}

static void reports(umbo_strategy *strategy) {
    char text[8192];
    size_t length = 0;
    int32_t causes = 77;
    int32_t replica;
    CHECK_STATUS(umbo_strategy_step_report(strategy, text, sizeof(text), &length, &causes),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("no step was measured");
    CHECK(causes == 77);
    CHECK_OK(umbo_strategy_measure_steps(strategy, 1));
    CHECK_STATUS(umbo_strategy_run(strategy, fails, NULL, NULL, NULL, NULL), UMBO_STATUS_ABORTED);
    CHECK_STATUS(umbo_strategy_step_report(strategy, text, sizeof(text), &length, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    run(strategy, 20);
    CHECK_OK(umbo_strategy_run(strategy, asks, NULL, strategy, NULL, NULL));
    CHECK_OK(umbo_strategy_step_report(strategy, text, sizeof(text), &length, &causes));
    CHECK(length == strlen(text) && strstr(text, "replica 1") != NULL);
    CHECK(strstr(text, "exchange") != NULL && causes < UMBO_STEP_CAUSE_OLD_KERNELS);
    CHECK_OK(umbo_strategy_step_report(strategy, text, sizeof(text), &length, NULL));
    for (replica = 0; replica < 2; replica++) {
        umbo_step_times times = UMBO_STEP_TIMES_INIT;
        double sum;
        CHECK_OK(umbo_strategy_step_times(strategy, replica, &times));
        CHECK(times.measured_step_count == 21 && times.step_count == 22 && times.step > 0);
        CHECK(times.compute > 0 && times.input == 0 && times.exchange == 0);
        sum = times.input + times.split + times.copy + times.compute + times.wait + times.reduce +
              times.update + times.exchange + times.outside;
        CHECK(sum > 0);
    }
    {
        umbo_step_times times = UMBO_STEP_TIMES_INIT;
        CHECK_STATUS(umbo_strategy_step_times(strategy, 2, &times), UMBO_STATUS_OUT_OF_RANGE);
        CHECK_MESSAGE("2 is not in [0, 2)");
        CHECK_STATUS(umbo_strategy_step_times(strategy, -1, &times), UMBO_STATUS_OUT_OF_RANGE);
        times.struct_size = 3;
        CHECK_STATUS(umbo_strategy_step_times(strategy, 0, &times), UMBO_STATUS_INVALID_ARGUMENT);
        /* A program that is older than the library knows the first fields. */
        times.struct_size = UMBO_STRUCT_MARK + 3 * sizeof(int64_t);
        times.step = -1;
        CHECK_OK(umbo_strategy_step_times(strategy, 0, &times));
        CHECK(times.step_count == 22 && times.step == -1);
    }
    length = 0;
    causes = 77;
    CHECK_STATUS(umbo_strategy_step_report(strategy, text, 10, &length, &causes), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length > 10 && causes != 77);
    CHECK_STATUS(umbo_strategy_step_report(strategy, NULL, 0, &length, NULL), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_strategy_step_report(strategy, NULL, 1, &length, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("buffer");
    CHECK_STATUS(umbo_strategy_measure_steps(strategy, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("measure");
    CHECK_STATUS(umbo_strategy_measure_steps(NULL, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_strategy_measure_steps(strategy, 0));
    CHECK_OK(umbo_strategy_measure_steps(strategy, 0));
    run(strategy, 5);
    CHECK_OK(umbo_strategy_step_report(strategy, text, sizeof(text), &length, NULL));
    CHECK(strstr(text, "21 steps measured of 22") != NULL);
}

static void traces(umbo_strategy *strategy) {
    umbo_trace_options options = UMBO_TRACE_OPTIONS_INIT;
    int errors = 0;
    int64_t events = -1, dropped = -1;
    FILE *file;
    char text[4096];
    size_t length;
    CHECK(options.max_events == 4000000);
    CHECK_STATUS(umbo_trace_stop(NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("no trace is being written");
    umbo_trace_span_begin("no trace, no span");
    umbo_trace_span_end();
    umbo_trace_span_end();
    umbo_trace_span_begin(NULL);
    umbo_trace_span_end();
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, count_errors, &errors, NULL));
    umbo_trace_span_begin("\xff");
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    CHECK(errors == 1);
    CHECK_STATUS(umbo_trace_start(NULL, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_trace_start("/nowhere/trace.json", NULL), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("/nowhere/trace.json");
    options.max_events = 0;
    CHECK_STATUS(umbo_trace_start(PATH, &options), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("options.max_events");
    options.max_events = 4;
    CHECK_OK(umbo_trace_start(PATH, &options));
    CHECK_STATUS(umbo_trace_start(PATH, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE(PATH);
    run(strategy, 10);
    CHECK_OK(umbo_trace_stop(&events, &dropped));
    CHECK(events == 4 && dropped >= 10);
    CHECK_OK(umbo_trace_start(PATH, NULL));
    umbo_trace_span_begin("a \"span\"");
    run(strategy, 1);
    umbo_trace_span_end();
    CHECK_OK(umbo_trace_stop(NULL, NULL));
    file = fopen(PATH, "rb");
    CHECK(file != NULL);
    length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = 0;
    fclose(file);
    CHECK(text[0] == '[' && strcmp(text + length - 2, "]\n") == 0);
    CHECK(strstr(text, "\"a \\\"span\\\"\"") != NULL && strstr(text, "\"inside\"") != NULL);
    CHECK(strstr(text, "replica 1") != NULL);
    CHECK(remove(PATH) == 0);
}

int main(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy;
    options.cpu_replicas = 2;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    reports(strategy);
    traces(strategy);
    umbo_strategy_release(strategy);
    return finish();
}
