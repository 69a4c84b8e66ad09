# The component mpi: umbo::mpi, which is umbo_mpi.c, compiled by the project that links it with the MPI
# that it finds. FindMPI's variables choose one, such as MPI_C_COMPILER=/path/to/mpicc.
if("mpi" IN_LIST umbo_FIND_COMPONENTS)
  find_package(MPI QUIET COMPONENTS C)
  set(umbo_mpi_FOUND ${MPI_C_FOUND})
  if(NOT umbo_mpi_FOUND)
    # find_package prints this where the component is required.
    set(umbo_NOT_FOUND_MESSAGE
        "umbo::mpi is C that is compiled with the project, and FindMPI found no MPI for C; enable the language C \
(project(... LANGUAGES C CXX), or enable_language(C)) and install an MPI with its mpicc, such as libopenmpi-dev")
  endif()
endif()

# To be called once umbo::umbo is there.
function(umbo_define_mpi folder)
  if(NOT umbo_mpi_FOUND OR TARGET umbo::mpi)
    return()
  endif()
  add_library(umbo_mpi_adapter STATIC EXCLUDE_FROM_ALL "${folder}/umbo_mpi.c")
  set_target_properties(umbo_mpi_adapter PROPERTIES
    C_STANDARD 99 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
  target_include_directories(umbo_mpi_adapter PUBLIC "${folder}")
  target_link_libraries(umbo_mpi_adapter PUBLIC umbo::umbo MPI::MPI_C)
  add_library(umbo::mpi ALIAS umbo_mpi_adapter)
endfunction()
