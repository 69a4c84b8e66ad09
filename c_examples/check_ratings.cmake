# Runs PROGRAM with ARGUMENTS. The last line of its output must be a JSON object whose FIELD is MOST at most, and which says
# that the ratings are generated if and only if no --data was given.
cmake_minimum_required(VERSION 3.19)

execute_process(COMMAND ${PROGRAM} ${ARGUMENTS}
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
message("${output}\n${errors}")
if(NOT status STREQUAL "0")
  message(FATAL_ERROR "The program ended with ${status}.")
endif()

string(REGEX MATCH "[^\n]*$" last_line "${output}")
string(JSON value GET "${last_line}" ${FIELD})
string(JSON generated GET "${last_line}" generated)
if(NOT value LESS_EQUAL MOST)
  message(FATAL_ERROR "${FIELD} is ${value}, more than ${MOST}.")
endif()
if("--data" IN_LIST ARGUMENTS AND generated)
  message(FATAL_ERROR "The ratings came from a file, but the program says that it generated them.")
elseif(NOT "--data" IN_LIST ARGUMENTS AND NOT generated)
  message(FATAL_ERROR "The program does not say that it generated the ratings.")
endif()
