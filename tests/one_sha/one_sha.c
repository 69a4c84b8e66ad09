/* One training, one SHA-256 of its weights: on every number of replicas and ranks, by every instruction set and system, with
 * everything saved and restored in the middle, also from the file that another of these settings has saved.
 *
 *   one_sha SYSTEM EXPECTED threads|processes [FIRST LAST REPLICAS] [FIRST LAST RANKS]
 *
 * It prints a line for each setting: SYSTEM, the instruction set (UMBO_INSTRUCTION_SET), how ranks run, the numbers of
 * replicas of a rank and of ranks, the SHA, and that of the training which resumed from the files that the setting before
 * has left in the working folder ("-" if there are none). It fails if one is not EXPECTED; "any" expects nothing. The exit
 * code is 77 if the processor has no such instructions. */
#if defined(__linux__)
#include "../ranks/ranks.h"
#endif

#include "rules_part.h"
#include "sums_part.h"
#include "thread_ranks.h"
#include "trainer_part.h"

enum { LACKS_INSTRUCTIONS = 77 };

struct setting {
    int replicas;
    int resumes; /* there are files */
    char sha[MOST_RANKS][SHA_TEXT], resumed[MOST_RANKS][SHA_TEXT];
};

static void look_for_instructions(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)user_data;
    if (strstr(message, "UMBO_INSTRUCTION_SET") != NULL) {
        fflush(NULL);
        _Exit(LACKS_INSTRUCTIONS);
    }
    /* Devices share processors here, which is slow and no mistake. */
    if (strstr(message, "take turns") == NULL) fprintf(stderr, "%s\n", message);
}

static void finish_training(umbo_communicator *communicator, int replicas, char text[SHA_TEXT]) {
    struct sha256 sha;
    sha256_begin(&sha);
    rules_from_saved(communicator, replicas, &sha);
    sums_from_saved(communicator, replicas, &sha);
    trainer_from_saved(communicator, replicas, &sha);
    sha256_end(&sha, text);
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct setting *const setting = (struct setting *)argument;
    if (setting->resumes) finish_training(communicator, setting->replicas, setting->resumed[rank]);
    rules_until_saved(communicator, setting->replicas);
    sums_until_saved(communicator, setting->replicas);
    trainer_until_saved(communicator, setting->replicas);
    finish_training(communicator, setting->replicas, setting->sha[rank]);
    return 0;
}

#if defined(__linux__)
static int in_a_process(umbo_communicator *communicator, int rank, void *argument) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, look_for_instructions, NULL, NULL));
    return on_rank(communicator, rank, argument);
}

static void run_process_ranks(int ranks, struct setting *setting) {
    struct setting *const shared = (struct setting *)ranks_shared(sizeof(*shared));
    struct ranks_options options = {0};
    struct ranks_outcome outcome;
    *shared = *setting;
    options.size = ranks;
    outcome = ranks_run(&options, in_a_process, shared);
    CHECK(!outcome.hung);
    for (int rank = 0; rank < ranks; rank++) {
        if (outcome.code[rank] == LACKS_INSTRUCTIONS) exit(LACKS_INSTRUCTIONS);
        CHECK(outcome.code[rank] == 0);
    }
    *setting = *shared;
}
#else
static void run_process_ranks(int ranks, struct setting *setting) {
    (void)setting;
    fprintf(stderr, "one_sha: no processes of %d ranks on this system\n", ranks);
    exit(2);
}
#endif

static int there_is(const char *path) {
    FILE *const file = fopen(path, "rb");
    return file != NULL && fclose(file) == 0;
}

/* Whether the SHAs of all ranks are the expected one. */
static int is_one(char sha[][SHA_TEXT], int ranks, const char *expected) {
    int same = 1;
    for (int rank = 0; rank < ranks; rank++)
        same &= strcmp(sha[rank], sha[0]) == 0 && (strcmp(expected, "any") == 0 || strcmp(sha[rank], expected) == 0);
    return same;
}

static int run_setting(const char *system, const char *expected, int in_processes, int replicas, int ranks) {
    const char *const set = getenv("UMBO_INSTRUCTION_SET");
    struct setting setting;
    int good;
    memset(&setting, 0, sizeof(setting));
    setting.replicas = replicas;
    setting.resumes = there_is("rules.umbo") && there_is("sums.umbo") && there_is("trainer.umbo");
    if (in_processes) {
        run_process_ranks(ranks, &setting);
    } else {
        run_thread_ranks(ranks, on_rank, &setting);
    }
    good = is_one(setting.sha, ranks, expected) && (!setting.resumes || is_one(setting.resumed, ranks, setting.sha[0]));
    printf("%s %s %s %d %d %s %s\n", system, set == NULL || *set == '\0' ? "best" : set,
           in_processes ? "processes" : "threads", replicas, ranks, setting.sha[0],
           setting.resumes ? setting.resumed[0] : "-");
    fflush(stdout);
    if (!good) fprintf(stderr, "one_sha: a SHA other than %s, or not the same on all ranks\n", expected);
    return good;
}

int main(int argc, char **argv) {
    int range[4] = {1, 8, 1, MOST_RANKS}, good = 1;
    const int in_processes = argc > 3 && strcmp(argv[3], "processes") == 0;
    if (argc < 4 || argc > 8 || (!in_processes && strcmp(argv[3], "threads") != 0)) {
        fprintf(stderr, "one_sha SYSTEM EXPECTED threads|processes [FIRST LAST REPLICAS] [FIRST LAST RANKS]\n");
        return 2;
    }
    for (int at = 4; at < argc; at++) range[at - 4] = atoi(argv[at]);
    /* Forked ranks use the library, so that this process must not. */
    if (!in_processes) CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, look_for_instructions, NULL, NULL));
    for (int replicas = range[0]; replicas <= range[1]; replicas++)
        for (int ranks = range[2]; ranks <= range[3]; ranks++)
            good &= run_setting(argv[1], argv[2], in_processes, replicas, ranks);
    if (!in_processes) CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
    if (!in_processes && finish() != 0) return 1;
    return good ? 0 : 1;
}
