# A project without the language C, in which CMake looks for no MPI, is told what to enable.
set(project "${WORK_DIR}-mpi_without_c")
file(REMOVE_RECURSE "${project}")
file(WRITE "${project}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.19)
project(without_c LANGUAGES CXX)
find_package(umbo CONFIG REQUIRED COMPONENTS mpi)
")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${project}" -B "${project}/build" -G "${GENERATOR}"
          "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
  RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
string(REGEX REPLACE "[ \n]+" " " said "${said}")
if(status EQUAL 0 OR NOT said MATCHES "enable the language C")
  message(FATAL_ERROR "ended with ${status} and said\n${said}")
endif()
