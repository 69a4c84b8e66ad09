/* The handles of a program, and what it says of its user data. */
#include <string.h>
#include <unistd.h>

#include "faults.h"

handles all;
_Atomic int held;
float numbers[LARGE];
char array_file[64];

void hold(void) {
    held++;
}

void destroy(void *user_data) {
    (void)user_data;
    held--;
}

void release_all(void) {
    int at;
    if (all.scope != NULL && umbo_scope_exit(all.scope) != UMBO_OK) _exit(20);
    if (all.strategy != NULL && umbo_strategy_synchronize(all.strategy) != UMBO_OK) _exit(21);
    umbo_cancellation_release(all.cancellation);
    umbo_equivalence_release(all.equivalence);
    umbo_checkpoint_release(all.checkpoint);
    umbo_trainer_release(all.trainer);
    for (at = 0; at < 4; at++) {
        umbo_distributed_dataset_release(all.distributed[at]);
        umbo_gradients_release(all.gradients[at]);
        umbo_element_spec_release(all.specs[at]);
    }
    for (at = 0; at < MOST_ITERATORS; at++) umbo_iterator_release(all.iterators[at]);
    for (at = 0; at < OPTIMIZERS + 4; at++) umbo_optimizer_release(all.optimizers[at]);
    for (at = 0; at < MOST_HANDLES; at++) {
        umbo_value_release(all.values[at]);
        umbo_tensor_release(all.tensors[at]);
        umbo_dataset_release(all.datasets[at]);
    }
    for (at = 0; at < MOST_VARIABLES; at++) umbo_variable_release(all.variables[at]);
    umbo_strategy_release(all.strategy);
    memset(&all, 0, sizeof all);
}
