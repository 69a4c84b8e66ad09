/* The training of crossings.h with variables on a GPU: it sees what the same on CPUs sees. */
#include "crossings.h"

int main(void) {
    static struct crossings on_cpus, on_gpu;
    cross(NULL, 0, REPLICAS, NULL, &on_cpus);
    CHECK(on_cpus.length > 0 && on_cpus.of_rank[0].error[0][1] == EXAMPLES);
    cross(NULL, 0, REPLICAS, "GPU:0", &on_gpu);
    CHECK(memcmp(&on_gpu.of_rank[0], &on_cpus.of_rank[0], sizeof(struct crossing)) == 0);
    /* Weights that a GPU's variables have saved are those of CPUs, byte by byte. */
    CHECK(on_gpu.length == on_cpus.length && memcmp(on_gpu.weights, on_cpus.weights, on_gpu.length) == 0);
    return finish();
}
