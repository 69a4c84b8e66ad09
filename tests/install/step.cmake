# step(<what> <command>...): runs a command, and fails with its output when it fails.
function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  set(STEP_OUTPUT "${output}" PARENT_SCOPE)
endfunction()
