# Puts the loop of the ten lines in docs/engines.md into a loop over epochs, and runs it over a stand-in for LibTorch
# (tests/engines runs the lines with LibTorch itself): each epoch is a whole pass.
include("${CMAKE_CURRENT_LIST_DIR}/block.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
take_block(ten_lines.inc "${WORK_DIR}/ten_lines.inc" docs/engines.md)
file(READ "${WORK_DIR}/ten_lines.inc" lines)
set(loop "for (const umbo::value &batch : batches) {")
string(REPLACE "${loop}" "for (int epoch = 0; epoch < epochs; ++epoch) ${loop}" in_epochs "${lines}")
if(in_epochs STREQUAL lines)
  message(FATAL_ERROR "the ten lines of docs/engines.md have no '${loop}'")
endif()
file(WRITE "${WORK_DIR}/epochs.inc" "${in_epochs}")
get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
execute_process(
  COMMAND "${CXX_COMPILER}" -std=c++17 -Wall -Wextra "-I${CMAKE_CURRENT_LIST_DIR}/ten_lines" "-I${SOURCE_DIR}/include"
          "-I${WORK_DIR}" "${CMAKE_CURRENT_LIST_DIR}/ten_lines.cpp" -o "${WORK_DIR}/ten_lines"
          "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}"
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/ten_lines" COMMAND_ERROR_IS_FATAL ANY)
