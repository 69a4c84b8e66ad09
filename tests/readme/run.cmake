# Compiles PROGRAM, a block of docs/start.md, runs it, and compares what it prints with what stands there.
include("${CMAKE_CURRENT_LIST_DIR}/block.cmake")

file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
take_block("${PROGRAM}" "${WORK_DIR}/${PROGRAM}")

get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
execute_process(
  COMMAND "${COMPILER}" -std=${STANDARD} -Wall -Wextra -Wpedantic -Wconversion -Werror
          "-I${SOURCE_DIR}/include" "${WORK_DIR}/${PROGRAM}" -o "${WORK_DIR}/first"
          "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}"
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} does not compile")
endif()
expect_output("${PROGRAM}" "${WORK_DIR}" "${WORK_DIR}/first")
