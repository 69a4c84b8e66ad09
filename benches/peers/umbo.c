#include <stdio.h>
#include <umbo/umbo.h>

#include "umbo_workloads.h"

int main(void) {
  workload workloads[16];
  char version[64];
  int count = add_memory_workloads(workloads);
  count += add_training_workloads(workloads + count);
  snprintf(version, sizeof(version), "umbo %s", umbo_version());
  take_turns(version, workloads, count);
  return 0;
}
