/* A view of a tensor that is gone at the end of the line.
 * refused: (use of deleted function|call to deleted|deleted member) */
#include <umbo/umbo.hpp>

float first_of_view(const umbo::variable &of);

float first_of_view(const umbo::variable &of) {
#ifdef WRONG
    const auto view = of.read().view_as<float>();
#else
    const umbo::tensor value = of.read();
    const auto view = value.view_as<float>();
#endif
    return view[0];
}
