/* A number in an option that is an enum.
 * languages: c++11 c++17
 * refused: (cannot convert|invalid conversion|assigning to) */
#include <umbo/umbo.h>

umbo_variable_options make(void);

umbo_variable_options make(void) {
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
#ifdef WRONG
    options.aggregation = 1;
#else
    options.aggregation = UMBO_AGGREGATION_SUM;
#endif
    return options;
}
