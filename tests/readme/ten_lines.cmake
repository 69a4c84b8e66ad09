# Compiles ten_lines.cpp around the block of README, with FLAGS, and runs it.
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
execute_process(
  COMMAND "${CMAKE_COMMAND}" "-DDOCUMENT=${SOURCE_DIR}/README.md" "-DNAME=ten_lines.inc" "-DOUTPUT=${WORK_DIR}/ten_lines.inc"
          -P "${SOURCE_DIR}/scripts/extract_block.cmake"
  COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
separate_arguments(FLAGS UNIX_COMMAND "${FLAGS}")
execute_process(
  COMMAND "${COMPILER}" -Wall -Wextra -Wpedantic -Werror "-I${SOURCE_DIR}/include" "-I${WORK_DIR}"
          "${CMAKE_CURRENT_LIST_DIR}/ten_lines.cpp" -o "${WORK_DIR}/ten_lines" "${library_directory}/libumbo.so"
          "-Wl,-rpath,${library_directory}" ${FLAGS}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/ten_lines" COMMAND_ERROR_IS_FATAL ANY)
