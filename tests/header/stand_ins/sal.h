/* Stands for that of Visual C++ where clang reads the headers by its rules: the one annotation that core.h uses. */
#define _Check_return_
