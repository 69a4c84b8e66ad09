/* Files and folders as Windows has them: paths are UTF-8, a backslash separates, and a file that another program has
 * open cannot be replaced. */
#include "check.h"

static const char path[] = "gr\xc3\xb6\xc3\x9f""e-\xe6\xa8\xa1\xe5\x9e\x8b.umbo", folder[] = "m\xc3\xa9moire";

static umbo_checkpoint *checkpoint;

#define CHECK_FAILS(call, status, words) \
    do {                                 \
        CHECK_STATUS(call, status);      \
        CHECK_MESSAGE(words);            \
    } while (0)

static FILE *open_utf_8(const char *name) {
    wchar_t wide[256];
    CHECK(MultiByteToWideChar(65001, 0, name, -1, wide, 256) > 0);
    return _wfopen(wide, L"rb");
}

static void names(void) {
    CHECK_OK(umbo_checkpoint_save(checkpoint, path));
    CHECK_OK(umbo_checkpoint_restore(checkpoint, path));
    CHECK_FAILS(umbo_checkpoint_save(checkpoint, "gr\xf6\xdf" "e.umbo"), UMBO_STATUS_INVALID_ARGUMENT, "is not UTF-8");
    CHECK_FAILS(umbo_checkpoint_save(checkpoint, "model\\"), UMBO_STATUS_INVALID_ARGUMENT, "folder");
    CHECK_FAILS(umbo_checkpoint_save(checkpoint, "there\\is no\\model"), UMBO_STATUS_NOT_FOUND,
                "the folder to write to");
    CHECK_FAILS(umbo_checkpoint_save(checkpoint, "a<b"), UMBO_STATUS_INVALID_ARGUMENT, "a<b");
}

/* C's functions keep a file for themselves: others may not replace it. The old file is whole. */
static void open_files(void) {
    FILE *file = open_utf_8(path);
    umbo_status status;
    CHECK(file != NULL);
    status = umbo_checkpoint_save(checkpoint, path);
    CHECK(status == UMBO_STATUS_UNAVAILABLE || status == UMBO_STATUS_PERMISSION_DENIED);
    CHECK_MESSAGE("renaming");
    CHECK_OK(umbo_checkpoint_restore(checkpoint, path));
    fclose(file);
    CHECK_OK(umbo_checkpoint_save(checkpoint, path));
    CHECK(remove(path) == 0);
}

/* The path of a manager is one that all programs understand. */
static void folders(void) {
    umbo_checkpoint_manager *manager;
    char made[4096];
    size_t length;
    CHECK_OK(umbo_checkpoint_manager_create(checkpoint, folder, NULL, &manager));
    CHECK_OK(umbo_checkpoint_manager_save(manager, 1, NULL, 1, NULL));
    CHECK_OK(umbo_checkpoint_manager_path(manager, 1, made, sizeof(made), &length));
    CHECK(made[1] == ':' && made[2] == '\\' && strstr(made, folder) != NULL && strstr(made, "\\\\?\\") == NULL);
    umbo_checkpoint_manager_release(manager);
    CHECK(remove(made) == 0 && remove(folder) == 0);
}

int main(void) {
    umbo_strategy *strategy;
    CHECK_OK(umbo_strategy_create(NULL, &strategy));
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    names();
    open_files();
    folders();
    umbo_checkpoint_release(checkpoint);
    umbo_strategy_release(strategy);
    return finish();
}
