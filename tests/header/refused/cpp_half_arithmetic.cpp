/* A 16-bit float where a float is expected, without saying so.
 * refused: (cannot convert|no viable conversion) */
#include <umbo/umbo.hpp>

float use_half(umbo::float16 number);

float use_half(umbo::float16 number) {
#ifdef WRONG
    return number;
#else
    return static_cast<float>(number);
#endif
}
