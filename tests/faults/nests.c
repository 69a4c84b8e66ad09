/* Nests and lists as long as there are variables: their tables are longer than what is set aside. Comes
 * after the training program, some of whose handles it uses. */
#include <stdio.h>

#include "faults.h"

#include <umbo/tensorflow.h>

static umbo_status pass_on(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_value *reduced = NULL;
    (void)user_data;
    UMBO_TRY(umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, args, &reduced));
    *result = reduced;
    return UMBO_OK;
}

void nests(void) {
    static char texts[MOST_VARIABLES][16];
    static const char *names[MOST_VARIABLES];
    static const umbo_value *items[MOST_VARIABLES];
    static const umbo_dataset *datasets[MOST_VARIABLES];
    const umbo_dataset *few[2];
    static const umbo_tensor *tensors[MOST_VARIABLES];
    static const umbo_destination *destinations[MOST_VARIABLES];
    umbo_distribute_options distribute = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_destination like = UMBO_DESTINATION_INIT;
    umbo_value **v = all.values;
    umbo_dataset **d = all.datasets;
    static char text[1 << 20];
    size_t length;
    int at;
    for (at = 0; at < variable_count; at++) {
        snprintf(texts[at], sizeof texts[at], "f%d", at);
        names[at] = texts[at];
        items[at] = v[3];
        tensors[at] = all.tensors[3];
    }
    CALL(umbo_value_create_tuple(variable_count, items, &v[70]));
    CALL(umbo_value_create_struct(variable_count, names, items, &v[71]));
    CALL(umbo_strategy_run(all.strategy, pass_on, NULL, v[71], NULL, &v[72]));
    CALL(umbo_strategy_run(all.strategy, pass_on, NULL, v[70], NULL, &v[73]));
    CALL(umbo_strategy_local_results(all.strategy, v[73], &v[74]));
    CALL(umbo_value_retain(v[71], &v[75]));
    CALL(umbo_value_text(v[71], text, sizeof text, &length));
    CALL(umbo_dataset_from_tensor_slices(v[71], &d[20]));
    CALL(umbo_dataset_retain(d[20], &d[21]));
    CALL(umbo_dataset_batch(&d[21], 4, 0));
    CALL(umbo_strategy_distribute_dataset(all.strategy, d[21], &distribute, &all.distributed[1]));
    CALL(umbo_iterator_from_distributed_dataset(all.distributed[1], &all.iterators[3]));
    CALL_ONCE(umbo_iterator_next(all.iterators[3], &v[76]));
    CALL(umbo_strategy_reduce(all.strategy, UMBO_REDUCE_SUM, v[76], NULL, &v[77]));
    CALL(umbo_strategy_gather(all.strategy, v[76], 0, NULL, &v[78]));
    CALL(umbo_dataset_element_spec(d[21], &all.specs[1]));
    like.variable = all.variables[0];
    for (at = 0; at < variable_count; at++) {
        datasets[at] = d[20];
        destinations[at] = &like;
        items[at] = v[2];
    }
    few[0] = few[1] = d[20];
    CALL(umbo_dataset_zip(2, few, NULL, &d[22]));
    CALL(umbo_dataset_concatenate(1 + variable_count / 2, datasets, &d[23]));
    CALL(umbo_dataset_from_elements(variable_count, tensors, &d[24]));
    CALL(umbo_strategy_batch_reduce_to(all.strategy, UMBO_REDUCE_SUM, variable_count, items,
                                       destinations, &v[79]));
}
