/* Communicators of Umbo over the MPI that a program is built with.
 *
 * For engines without MPI's standard ABI, such as Open MPI 4 and 5 and MPICH 4. Compile umbo_mpi.c with
 * their mpicc, or use CMake's find_package(umbo COMPONENTS mpi) and link umbo::mpi. Where the engine has
 * the standard ABI, umbo_communicator_create_mpi() does the same and needs nothing at build time. */
#ifndef UMBO_MPI_H
#define UMBO_MPI_H

#include <mpi.h>
#include <umbo/cluster.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Joins the ranks of `mpi_communicator`, all of which call this. MPI has been initialised, with
 * MPI_THREAD_SERIALIZED or more unless all calls are made on its main thread. The communicator is
 * duplicated, and stays the program's. `options` may be NULL. Errors are those of
 * umbo_communicator_create_mpi(). */
UMBO_MUST_USE umbo_status umbo_mpi_communicator_create(MPI_Comm mpi_communicator,
                                                       const umbo_mpi_options *options,
                                                       umbo_communicator **communicator);

/* Joins all processes that were started together. MPI is initialised if it is not, and then finalised
 * with the last communicator. */
UMBO_MUST_USE umbo_status umbo_mpi_communicator_create_world(const umbo_mpi_options *options,
                                                             umbo_communicator **communicator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
