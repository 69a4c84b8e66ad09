file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")

execute_process(
  COMMAND "${CMAKE_COMMAND}" "-DREADME=${SOURCE_DIR}/README.md"
          "-DPROGRAM=${WORK_DIR}/first.c" "-DOUTPUT=${WORK_DIR}/expected.txt"
          -P "${SOURCE_DIR}/scripts/extract_readme_program.cmake"
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "README's program could not be extracted")
endif()

get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
execute_process(
  COMMAND "${COMPILER}" -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror
          "-I${SOURCE_DIR}/include" "${WORK_DIR}/first.c" -o "${WORK_DIR}/first"
          "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}"
  RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "README's program does not compile")
endif()

execute_process(COMMAND "${WORK_DIR}/first" RESULT_VARIABLE status OUTPUT_VARIABLE printed
                ERROR_VARIABLE complaints)
file(READ "${WORK_DIR}/expected.txt" expected)
if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
  message(FATAL_ERROR "README's program ended with ${status}\n--- README says\n${expected}"
                      "--- it printed\n${printed}${complaints}")
endif()
