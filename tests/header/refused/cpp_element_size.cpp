/* A type for elements that has another size than they have.
 * languages: c++17 c++2b
 * refused: an element type has the size of its dtype */
#include <umbo/umbo.hpp>

struct mine {
#ifdef WRONG
    int bits;
#else
    short bits;
#endif
};

template <>
struct umbo::dtype_trait<mine> {
    static constexpr umbo::dtype value = umbo::dtype::float16;
};

umbo::tensor make();

umbo::tensor make() { return umbo::tensor::scalar(mine{0}); }
