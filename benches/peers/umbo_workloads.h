/* Umbo's workloads, through its C functions as a trainer calls them. */
#ifndef UMBO_WORKLOADS_H
#define UMBO_WORKLOADS_H

#include "turns.h"

/* Each stores its workloads from `workloads` on and returns how many those are. */
int add_memory_workloads(workload *workloads);
int add_training_workloads(workload *workloads);

#endif
