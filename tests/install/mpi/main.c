/* A job of one process, which MPI allows without a launcher. */
#include <stdio.h>

#include <umbo/umbo.h>
#include <umbo_mpi.h>

int main(void) {
    umbo_communicator *communicator = NULL;
    int64_t least = 0, greatest = 0;
    umbo_status status = umbo_mpi_communicator_create_world(NULL, &communicator);
    if (status == UMBO_OK) status = umbo_communicator_vote(communicator, 7, &least, &greatest);
    if (status != UMBO_OK) fprintf(stderr, "%s\n", umbo_last_error_message());
    umbo_communicator_release(communicator);
    return status != UMBO_OK || least != 7 || greatest != 7;
}
