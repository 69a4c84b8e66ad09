/* A checkpoint is there as a whole, the old one or the new one, whatever happens while it is saved.
 *
 *   checkpoints calls        each system call of a save fails in turn, with several errors, or writes less
 *   checkpoints disk         there is room for less and less of the file
 *   checkpoints killed       the process is killed before and after each system call of a save
 *   checkpoints kills N      N processes that save are killed at random moments
 *
 * This program's functions below stand before the C library's. Calls of the thread that saves count. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <umbo/all.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTS 50000
#define FOLDER "checkpoints_of_faults"
#define FILE_NAME FOLDER "/model.safetensors"

#define REQUIRE(condition)                                                                       \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            fprintf(stderr, "%s:%d: %s: %s; errno %d, call %ld (%s)\n", __FILE__, __LINE__,      \
                    #condition, umbo_last_error_message(), errno, fail_at, failed_call);         \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

#define OK(call) REQUIRE((call) == UMBO_OK)

/* ---- system calls that fail */

/* What happens at the `fail_at`-th call, counted from 1: an error, less than all is written, or the end of
 * the process, before the call or after it. */
enum { LESS = -1, DIE_BEFORE = -2, DIE_AFTER = -3 };

static _Thread_local int armed;
static long seen, fail_at;
static int what;
static const char *failed_call = "none";

/* The calls of a save, in their order. */
static const char *order[256];

/* Whether this call fails; errno says how. */
static int fails(const char *call) {
    if (!armed) return 0;
    if (seen < 256) order[seen] = call;
    if (++seen != fail_at) return 0;
    failed_call = call;
    if (what == DIE_BEFORE) raise(SIGKILL);
    if (what < 0) return 0;
    errno = what;
    return 1;
}

static void done(void) {
    if (armed && seen == fail_at && what == DIE_AFTER) raise(SIGKILL);
}

int open64(const char *path, int flags, ...) {
    typedef int (*function)(const char *, int, ...);
    static function next;
    va_list arguments;
    mode_t mode;
    int file;
    va_start(arguments, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "open64");
    if (fails("open64")) return -1;
    file = next(path, flags, mode);
    done();
    return file;
}

ssize_t write(int file, const void *bytes, size_t count) {
    typedef ssize_t (*function)(int, const void *, size_t);
    static function next;
    ssize_t written;
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "write");
    if (fails("write")) return -1;
    if (armed && seen == fail_at && what == LESS && count > 1) count /= 2;
    written = next(file, bytes, count);
    done();
    return written;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    typedef ssize_t (*function)(int, const struct iovec *, int);
    static function next;
    ssize_t written;
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "writev");
    if (fails("writev")) return -1;
    if (armed && seen == fail_at && what == LESS && count > 0) {
        struct iovec less = parts[0];
        if (less.iov_len > 1) less.iov_len /= 2;
        written = next(file, &less, 1);
    } else {
        written = next(file, parts, count);
    }
    done();
    return written;
}

#define INTERPOSED(name, parameters, ...)                         \
    int name parameters {                                         \
        typedef int(*function) parameters;                        \
        static function next;                                     \
        int result;                                               \
        if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, #name); \
        if (fails(#name)) return -1;                              \
        result = next(__VA_ARGS__);                               \
        done();                                                   \
        return result;                                            \
    }

INTERPOSED(fsync, (int file), file)
INTERPOSED(rename, (const char *from, const char *to), from, to)
INTERPOSED(unlink, (const char *path), path)
INTERPOSED(flock, (int file, int operation), file, operation)
INTERPOSED(close, (int file), file)
INTERPOSED(statx, (int folder, const char *path, int flags, unsigned mask, struct statx *buffer), folder, path,
           flags, mask, buffer)
INTERPOSED(stat64, (const char *path, struct stat64 *buffer), path, buffer)
INTERPOSED(fstat64, (int file, struct stat64 *buffer), file, buffer)

DIR *opendir(const char *path) {
    typedef DIR *(*function)(const char *);
    static function next;
    DIR *folder;
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    if (fails("opendir")) return NULL;
    folder = next(path);
    done();
    return folder;
}

static void arm(long call, int happens) {
    seen = 0;
    fail_at = call;
    what = happens;
    failed_call = "none";
    armed = 1;
}

/* ---- a training with something to save */

static umbo_strategy *strategy;
static umbo_variable *variable;
static umbo_checkpoint *checkpoint;
static float values[ELEMENTS];

static void make(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_tensor *initial;
    const int64_t shape[1] = {ELEMENTS};
    options.cpu_replicas = 1;
    OK(umbo_strategy_create(&options, &strategy));
    OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, shape, NULL, &initial));
    OK(umbo_variable_create(strategy, "w", initial, NULL, &variable));
    umbo_tensor_release(initial);
    OK(umbo_checkpoint_create(strategy, &checkpoint));
    OK(umbo_checkpoint_add_variable(checkpoint, NULL, variable));
    OK(umbo_checkpoint_set_integer(checkpoint, "number", 0));
}

static void release(void) {
    int64_t alive = -1;
    umbo_checkpoint_release(checkpoint);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    OK(umbo_live_handles(UMBO_HANDLE_ANY, &alive));
    REQUIRE(alive == 0);
}

static void set(int64_t number) {
    int index;
    for (index = 0; index < ELEMENTS; index++) values[index] = (float)number;
    OK(umbo_variable_upload(variable, values, sizeof(values)));
    OK(umbo_checkpoint_set_integer(checkpoint, "number", number));
}

/* The number of the checkpoint in the file, which is whole. */
static int64_t restored(void) {
    int64_t number = -1;
    int index;
    OK(umbo_checkpoint_restore(checkpoint, FILE_NAME));
    OK(umbo_checkpoint_integer(checkpoint, "number", &number));
    OK(umbo_variable_download(variable, values, sizeof(values)));
    for (index = 0; index < ELEMENTS; index++) REQUIRE(values[index] == (float)number);
    return number;
}

/* How many files there are. */
static int files(void) {
    DIR *folder = opendir(FOLDER);
    int count = 0;
    REQUIRE(folder != NULL);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count - 2;
}

static void empty_folder(void) {
    DIR *folder;
    struct dirent *entry;
    char path[4096];
    (void)mkdir(FOLDER, 0777);
    folder = opendir(FOLDER);
    REQUIRE(folder != NULL);
    while ((entry = readdir(folder)) != NULL) {
        if (snprintf(path, sizeof(path), FOLDER "/%s", entry->d_name) > 0) (void)unlink(path);
    }
    closedir(folder);
}

/* ---- each call fails in turn */

/* The new file is on the disk before it has its name, and the folder afterwards. */
static void check_order(void) {
    long at, renamed = -1, before = 0, after = 0, writes = 0;
    set(1);
    arm(0, EIO);
    OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
    armed = 0;
    REQUIRE(seen < 256);
    for (at = 0; at < seen; at++) {
        if (strcmp(order[at], "rename") == 0) {
            REQUIRE(renamed == -1 && before == 1);
            renamed = at;
        } else if (strcmp(order[at], "fsync") == 0) {
            (renamed == -1 ? before++ : after++);
        } else if (strcmp(order[at], "write") == 0 || strcmp(order[at], "writev") == 0) {
            REQUIRE(before == 0);
            writes++;
        }
    }
    REQUIRE(renamed != -1 && before == 1 && after == 1 && writes > 0);
}

static void calls(void) {
    static const int errors[] = {EIO, ENOSPC, EACCES, EINTR, EROFS, EMFILE, LESS};
    size_t error;
    long trials = 0, refused = 0;
    check_order();
    for (error = 0; error < sizeof(errors) / sizeof(errors[0]); error++) {
        long call;
        int old = 1;
        for (call = 1; old; call++) {
            umbo_status status;
            int64_t found;
            set(1);
            OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
            REQUIRE(files() == 1);
            set(2);
            arm(call, errors[error]);
            status = umbo_checkpoint_save(checkpoint, FILE_NAME);
            armed = 0;
            if (seen < call) {
                REQUIRE(status == UMBO_OK);
                break;
            }
            trials++;
            refused += status != UMBO_OK;
            REQUIRE(status != UMBO_STATUS_INTERNAL);
            REQUIRE(status == UMBO_OK || strstr(umbo_last_error_message(), "model.safetensors") != NULL ||
                    strstr(umbo_last_error_message(), FOLDER) != NULL);
            REQUIRE(files() == 1 || strcmp(failed_call, "unlink") == 0);
            found = restored();
            REQUIRE(found == (status == UMBO_OK ? 2 : 1));
        }
    }
    REQUIRE(trials > 40 && refused > 20);
    printf("%ld calls failed, %ld saves were refused\n", trials, refused);
}

/* ---- a full disk */

static void disk(void) {
    struct rlimit limit;
    struct stat whole;
    rlim_t room;
    int trials = 0;
    set(1);
    OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
    REQUIRE(stat(FILE_NAME, &whole) == 0);
    REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    signal(SIGXFSZ, SIG_IGN);
    set(2);
    for (room = 0; room < (rlim_t)whole.st_size; room += 997) {
        struct rlimit less = limit;
        umbo_status status;
        less.rlim_cur = room;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &less) == 0);
        status = umbo_checkpoint_save(checkpoint, FILE_NAME);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        REQUIRE(status == UMBO_STATUS_RESOURCE_EXHAUSTED);
        REQUIRE(files() == 1);
        trials++;
    }
    REQUIRE(restored() == 1);
    set(2);
    OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
    REQUIRE(restored() == 2 && trials > 100);
    printf("%d times too little room\n", trials);
}

/* ---- kills */

/* Another process of this program, which has written a byte when it begins to save. */
static pid_t start(const char *role, const char *first, const char *second) {
    int ends[2];
    char byte;
    pid_t child;
    REQUIRE(pipe(ends) == 0);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        char file[16];
        (void)snprintf(file, sizeof(file), "%d", ends[1]);
        execl("/proc/self/exe", "checkpoints", role, first, second, file, (char *)NULL);
        _exit(3);
    }
    close(ends[1]);
    REQUIRE(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    return child;
}

static void begin(const char *file) {
    if (write(atoi(file), "x", 1) != 1) exit(1);
}

static void killed(void) {
    static const char *const ways[] = {"-2", "-3"};
    int way, trials = 0, old = 0, new_ones = 0;
    for (way = 0; way < 2; way++) {
        int status = 0;
        long call;
        for (call = 1;; call++) {
            char number[16];
            pid_t child;
            int64_t found;
            set(1);
            OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
            (void)snprintf(number, sizeof(number), "%ld", call);
            child = start("die", number, ways[way]);
            REQUIRE(waitpid(child, &status, 0) == child);
            if (!WIFSIGNALED(status)) {
                REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
                break;
            }
            found = restored();
            REQUIRE(found == 1 || found == 2);
            found == 1 ? old++ : new_ones++;
            /* What the process has left is removed by the next save. */
            OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
            REQUIRE(files() == 1);
            trials++;
        }
    }
    REQUIRE(trials > 10 && old > 0 && new_ones > 0);
    printf("%d kills at system calls: %d old files, %d new ones\n", trials, old, new_ones);
}

static void kills(int count) {
    int trial;
    int64_t last = 0;
    srand(1);
    set(0);
    OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
    for (trial = 0; trial < count; trial++) {
        struct timespec pause = {0, 0};
        char from[32];
        int64_t found;
        pid_t child;
        int status;
        (void)snprintf(from, sizeof(from), "%lld", (long long)last);
        child = start("save", from, "0");
        pause.tv_nsec = rand() % 20000000;
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        found = restored();
        REQUIRE(found >= last);
        last = found;
    }
    OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
    REQUIRE(files() == 1 && last > count / 4);
    printf("%d kills, %lld checkpoints were saved meanwhile\n", count, (long long)last);
}

int main(int argc, char **argv) {
    const char *role = argc > 1 ? argv[1] : "";
    make();
    if (strcmp(role, "die") == 0 && argc == 5) {
        set(2);
        begin(argv[4]);
        arm(atol(argv[2]), atoi(argv[3]));
        OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
        armed = 0;
    } else if (strcmp(role, "save") == 0 && argc == 5) {
        int64_t number = atoll(argv[2]);
        begin(argv[4]);
        for (;;) {
            set(++number);
            OK(umbo_checkpoint_save(checkpoint, FILE_NAME));
        }
    } else {
        empty_folder();
        if (strcmp(role, "calls") == 0) calls();
        else if (strcmp(role, "disk") == 0) disk();
        else if (strcmp(role, "killed") == 0) killed();
        else if (strcmp(role, "kills") == 0 && argc == 3) kills(atoi(argv[2]));
        else {
            fprintf(stderr, "usage: %s calls|disk|killed|kills N\n", argv[0]);
            return 2;
        }
        empty_folder();
    }
    release();
    return 0;
}
