# take_block(<name> <file>): writes a block of README into a file.
function(take_block name file)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DDOCUMENT=${SOURCE_DIR}/README.md" "-DNAME=${name}" "-DOUTPUT=${file}"
            -P "${SOURCE_DIR}/scripts/extract_block.cmake"
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "README's ${name} could not be extracted")
  endif()
endfunction()

# expect_output(<what> <folder> <command>...): runs a command there; what it prints has to be what README says its first
# program prints.
function(expect_output what folder)
  take_block(expected.txt "${folder}/expected.txt")
  file(READ "${folder}/expected.txt" expected)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${folder}" RESULT_VARIABLE status
                  OUTPUT_VARIABLE printed ERROR_VARIABLE complaints)
  if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
    message(FATAL_ERROR "README's ${what} ended with ${status}\n--- README says\n${expected}"
                        "--- it printed\n${printed}${complaints}")
  endif()
endfunction()
