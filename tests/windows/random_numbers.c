/* bcryptprimitives.dll for a wine that has none (before version 9), as Rust's standard library needs it. For tests
 * alone: Windows has its own. */
#include <windows.h>

#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
    while (count > 0) {
        const ULONG part = count < 65536 ? (ULONG)count : 65536;
        if (!RtlGenRandom(bytes, part)) return FALSE;
        bytes += part;
        count -= part;
    }
    return TRUE;
}
