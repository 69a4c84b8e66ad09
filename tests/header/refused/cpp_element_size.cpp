/* A type for elements that has a size other than they have.
 * refused: an element type has the size of its dtype */
#include <umbo/umbo.hpp>

struct of_other_size {
#ifdef WRONG
    int bits;
#else
    short bits;
#endif
};

template <>
struct umbo::dtype_trait<of_other_size> {
    static constexpr umbo::dtype value = umbo::dtype::float16;
};

umbo::tensor make_of_other_size();

umbo::tensor make_of_other_size() { return umbo::tensor::scalar(of_other_size{0}); }
