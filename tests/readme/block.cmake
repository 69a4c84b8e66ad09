# take_block(<name> <file> [<document>]): writes a block of a document, or of those with which users begin, into a file.
function(take_block name file)
  set(document docs/packaging.md)
  if(ARGC GREATER 2)
    set(document "${ARGV2}")
  elseif(name MATCHES "^(first\\.|expected)")
    set(document docs/start.md)
  elseif(name MATCHES "^find_package/")
    set(document README.md)
  endif()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DDOCUMENT=${SOURCE_DIR}/${document}" "-DNAME=${name}" "-DOUTPUT=${file}"
            -P "${SOURCE_DIR}/scripts/extract_block.cmake"
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${document}: ${name} could not be extracted")
  endif()
endfunction()

# expect_output(<what> <folder> <command>...): runs a command there; what it prints has to be what docs/start.md says its first
# program prints.
function(expect_output what folder)
  take_block(expected.txt "${folder}/expected.txt")
  file(READ "${folder}/expected.txt" expected)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY "${folder}" RESULT_VARIABLE status
                  OUTPUT_VARIABLE printed ERROR_VARIABLE complaints)
  if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
    message(FATAL_ERROR "${what} ended with ${status}\n--- the document says\n${expected}"
                        "--- it printed\n${printed}${complaints}")
  endif()
endfunction()
