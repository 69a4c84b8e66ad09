/* A storm of runs: several threads and strategies, deadlines and tokens, failures, callbacks that
 * come back late, merge calls, nested runs, all-reduces, assignments, updates and applies, all
 * drawn from a seed; with numbers of 16, 32 and 64 bits, strided views, and gradients of rows. A model says after each run what central state has to be: changed if the run
 * succeeded, as before if not.
 *
 *   storm [--runs N] [--seconds S] [--seed X] [--threads T] [--gpus G]
 *
 * Ends after so many runs or seconds, whichever is first.
 * With --gpus two GPUs compute, one of them beside a CPU if G is odd, and hold some of the variables.
 * What it demands:
 *
 * - each variable is what the model says after each run of the one thread that changes it;
 * - a run ends in a way that was drawn for it: one without a deadline and a token, for example, is
 *   never cancelled, whatever happens to the tokens and deadlines of runs before it, and one whose own callback has
 *   cancelled its token never takes effect;
 * - the user data is destroyed exactly once, after the last callback is back, before the run
 *   returns if it has no limits, and in any case before synchronize returns;
 * - callbacks find what they are given, and all-reduces and nested runs give the right numbers;
 * - nothing hangs, and no handle is left. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "storm.h"

const int32_t replicas_of[STRATEGIES] = {2, 3, 1};
umbo_strategy *strategies[STRATEGIES];
struct thread threads[MOST_THREADS];
int64_t gpu_seed = -1;
int thread_count = 3, failures;
int64_t runs_wanted = 100000, runs_begun, late_callbacks, overtaken_most, started[STRATEGIES];
double seconds_wanted = 1e9, began;
static uint64_t seed = 1;

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void wrong(const struct thread *thread, const char *format, ...) {
    va_list arguments;
    const int index = __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    if (index > 20) return;
    flockfile(stderr);
    fprintf(stderr, "storm --seed %llu: thread %d, run %lld: ", (unsigned long long)seed,
            thread->index, (long long)thread->runs);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n");
    funlockfile(stderr);
}

/* splitmix64 */
uint64_t draw(struct thread *thread) {
    uint64_t z = thread->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int below(struct thread *thread, int count) {
    return (int)(draw(thread) % (uint64_t)count);
}

int one_in(struct thread *thread, int count) { return below(thread, count) == 0; }

static int finished;

/* Ends the program if no thread gets on. */
static void *watch(void *user_data) {
    int64_t progress = -1;
    double since = now();
    (void)user_data;
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        int64_t sum = __atomic_load_n(&runs_begun, __ATOMIC_SEQ_CST);
        usleep(100000);
        if (sum != progress) {
            progress = sum;
            since = now();
        } else if (now() - since > PATIENCE) {
            int index;
            fprintf(stderr, "storm --seed %llu hangs after %lld runs\n", (unsigned long long)seed,
                    (long long)sum);
            for (index = 0; index < thread_count; index++)
                fprintf(stderr, "  thread %d: %s\n", index,
                        threads[index].doing == NULL ? "main" : threads[index].doing);
            abort();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int64_t given = 0, destroyed = 0, ended[17] = {0}, runs = 0, nested = 0, others = 0;
    int64_t applied[TRAINERS] = {0};
    int index, which;
    pthread_t watcher;
    double waited;
    for (index = 1; index + 1 < argc; index += 2) {
        if (strcmp(argv[index], "--runs") == 0) runs_wanted = atoll(argv[index + 1]);
        else if (strcmp(argv[index], "--seconds") == 0) seconds_wanted = atof(argv[index + 1]);
        else if (strcmp(argv[index], "--seed") == 0)
            seed = strtoull(argv[index + 1], NULL, 10);
        else if (strcmp(argv[index], "--threads") == 0) thread_count = atoi(argv[index + 1]);
        else if (strcmp(argv[index], "--gpus") == 0) gpu_seed = atoll(argv[index + 1]);
        else {
            fprintf(stderr, "usage: storm [--runs N] [--seconds S] [--seed X] [--threads T] "
                            "[--gpus G]\n");
            return 2;
        }
    }
    CHECK(thread_count >= 1 && thread_count <= MOST_THREADS);
    printf("storm --seed %llu --threads %d\n", (unsigned long long)seed, thread_count);
    fflush(stdout);
    began = now();
    make_tokens();
    make_objects();
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (index = 0; index < thread_count; index++) {
        threads[index].index = index;
        threads[index].state = seed * 0x2545f4914f6cdd1du + (uint64_t)index;
        CHECK(pthread_create(&threads[index].thread, NULL, weather, &threads[index]) == 0);
    }
    for (index = 0; index < thread_count; index++)
        CHECK(pthread_join(threads[index].thread, NULL) == 0);
    for (which = 0; which < STRATEGIES; which++) CHECK_OK(umbo_strategy_synchronize(strategies[which]));
    for (index = 0; index < thread_count; index++)
        for (which = 0; which < STRATEGIES; which++)
            check_state(&threads[index], which, "everything");
    __atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(watcher, NULL) == 0);
    release_tokens();
    release_objects();
    for (index = 0; index < thread_count; index++) {
        const struct thread *thread = &threads[index];
        runs += thread->runs;
        nested += thread->nested;
        for (which = 0; which < TRAINERS; which++) applied[which] += thread->applied[which];
        others += thread->assignments + thread->applies + thread->synchronisations +
                  thread->strategies + thread->cancelled;
        for (which = 0; which < 17; which++) ended[which] += thread->ended[which];
        for (which = 0; which < 2 * STRATEGIES; which++) given += thread->given[which];
    }
    /* Strategies that were released with callbacks under way end on their own. */
    for (waited = now(); now() - waited < PATIENCE; usleep(1000)) {
        for (index = 0, destroyed = 0; index < thread_count; index++)
            for (which = 0; which < 2 * STRATEGIES; which++)
                destroyed +=
                    __atomic_load_n(&threads[index].destroyed[which], __ATOMIC_SEQ_CST);
        if (destroyed >= given) break;
    }
    if (destroyed != given)
        wrong(&threads[0], "%lld user data were destroyed and not %lld", (long long)destroyed,
              (long long)given);
    printf("%lld runs and %lld nested ones:", (long long)runs, (long long)nested);
    for (which = 0; which < 17; which++)
        if (ended[which] != 0)
            printf(" %lld %s", (long long)ended[which], umbo_status_name(which));
    printf("\n%lld applies of doubles, %lld of float16, %lld of bfloat16, %lld and %lld of rows",
           (long long)applied[DOUBLE], (long long)applied[HALF], (long long)applied[BRAIN],
           (long long)applied[TABLE], (long long)applied[BRAIN_TABLE]);
    printf("\n%lld other calls, %lld callbacks of runs that were over, "
           "at most %lld runs between a call and its end, %d failures\n",
           (long long)others, (long long)late_callbacks, (long long)overtaken_most, failures);
    return failures != 0 || finish() != 0;
}
