# Compares the losses that the program COMPILED prints before and after the patch of docs/loop.md; its argument says which.

# loss_of(<when> <place>): the loss that the program of then prints.
function(loss_of when place)
  execute_process(COMMAND "${COMPILED}" ${when} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "${when}: ${printed}")
  if(NOT printed MATCHES "^loss ([0-9]+)\\.([0-9]+)")
    message(FATAL_ERROR "${when}, the program printed: ${printed}")
  endif()
  set(${place} "1${CMAKE_MATCH_1}${CMAKE_MATCH_2}" PARENT_SCOPE) # all its digits, as a whole number
endfunction()

loss_of(before before)
loss_of(after after)
# Sums in another order may round otherwise.
math(EXPR difference "${after} - ${before}")
if(difference LESS -2 OR difference GREATER 2)
  message(FATAL_ERROR "another loss after the patch: ${difference} in the last digit")
endif()
