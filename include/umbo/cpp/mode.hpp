// The namespace of this API, in which programs with and without exceptions may be linked together:
// what is declared differently has another name for the linker.
#ifndef UMBO_CPP_MODE_HPP
#define UMBO_CPP_MODE_HPP

#if !defined(UMBO_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define UMBO_NO_EXCEPTIONS 1
#endif

#if defined(UMBO_NO_EXCEPTIONS)
#define UMBO_DETAIL_BEGIN \
    namespace umbo {      \
    inline namespace without_exceptions {
#define UMBO_DETAIL_END \
    }                   \
    }
#else
#define UMBO_DETAIL_BEGIN namespace umbo {
#define UMBO_DETAIL_END }
#endif

#endif
