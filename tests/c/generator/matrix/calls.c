/* ---- the calls, one for each function */

/* CALLS */
static const struct function functions[] = {
    /* TABLE */
};

#define FUNCTIONS COUNT_OF(functions)

