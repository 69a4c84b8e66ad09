/* Functions of POSIX that tests in C call and MinGW does not have. Each test is compiled with this header before it
 * (-include). */
#ifndef UMBO_TESTS_WINDOWS_POSIX_H
#define UMBO_TESTS_WINDOWS_POSIX_H

#include <direct.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

/* Of <windows.h>, whose names would meet those of the tests. */
__declspec(dllimport) int __stdcall GenerateConsoleCtrlEvent(unsigned long event, unsigned long group);
__declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned int from, unsigned long flags, const char *text,
                                                        int bytes, wchar_t *wide, int capacity);
__declspec(dllimport) void __stdcall Sleep(unsigned long milliseconds);

static inline int setenv(const char *name, const char *value, int replace) {
    return replace == 0 && getenv(name) != NULL ? 0 : _putenv_s(name, value);
}

static inline int unsetenv(const char *name) {
    return _putenv_s(name, "");
}

/* POSIX's removes empty folders, too. Paths are UTF-8, as those of the library. */
static inline int remove_file_or_folder(const char *path) {
    wchar_t wide[4096];
    if (MultiByteToWideChar(65001, 0, path, -1, wide, 4096) == 0) return -1;
    return _wremove(wide) == 0 ? 0 : _wrmdir(wide);
}
#define remove remove_file_or_folder

/* Ctrl-C at the console. Windows tells the process of it on a thread of its own, which is waited for. */
static inline int interrupt_at_the_console(int number) {
    int told;
    if (number != SIGINT) return raise(number);
    told = GenerateConsoleCtrlEvent(0, 0);
    Sleep(300);
    return told ? 0 : -1;
}
#define raise interrupt_at_the_console
#define kill(process, number) ((void)(process), interrupt_at_the_console(number))

#endif
