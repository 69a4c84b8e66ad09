/* Elements of a type that has no dtype.
 * languages: c++17 c++2b
 * refused: dtype_trait<T> says of which dtype it is */
#include <umbo/umbo.hpp>

struct mine {
    short bits;
};

#ifndef WRONG
template <>
struct umbo::dtype_trait<mine> {
    static constexpr umbo::dtype value = umbo::dtype::float16;
};
#endif

umbo::tensor make();

umbo::tensor make() { return umbo::tensor::scalar(mine{0}); }
