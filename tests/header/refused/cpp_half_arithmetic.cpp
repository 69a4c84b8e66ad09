/* A 16-bit float where a float is expected, without saying so.
 * languages: c++17 c++2b
 * refused: (cannot convert|no viable conversion) */
#include <umbo/umbo.hpp>

float use(umbo::float16 number);

float use(umbo::float16 number) {
#ifdef WRONG
    return number;
#else
    return static_cast<float>(number);
#endif
}
