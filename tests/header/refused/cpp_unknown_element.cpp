/* Elements of a type that has no dtype.
 * refused: dtype_trait<T> says of which dtype it is */
#include <umbo/umbo.hpp>

struct unknown_element {
    short bits;
};

#ifndef WRONG
template <>
struct umbo::dtype_trait<unknown_element> {
    static constexpr umbo::dtype value = umbo::dtype::float16;
};
#endif

umbo::tensor make_of_unknown();

umbo::tensor make_of_unknown() { return umbo::tensor::scalar(unknown_element{0}); }
