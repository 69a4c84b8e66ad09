# Runs PROGRAM with ARGUMENTS and one, two and three compute devices. With one number of replicas in sync the weights
# must have the same bits each time.
cmake_minimum_required(VERSION 3.19)

set(all "")
foreach(devices 1 2 3)
  execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} --replicas ${devices}
    OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  message("${output}\n${errors}")
  if(NOT status STREQUAL "0")
    message(FATAL_ERROR "The program ended with ${status}.")
  endif()
  string(REGEX MATCH "[^\n]*$" last_line "${output}")
  string(JSON weights GET "${last_line}" weights)
  list(APPEND all ${weights})
endforeach()
list(REMOVE_DUPLICATES all)
list(LENGTH all count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "The weights depend on the number of devices: ${all}.")
endif()
