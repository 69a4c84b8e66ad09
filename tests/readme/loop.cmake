# Compares the losses that PROGRAM prints before and after the patch NAME.diff of docs/loop.md. FLAGS, BEFORE and AFTER: what to
# compile and link both with, and either. COMPILED: a program that is both already, and whose argument says which.
get_filename_component(extension "${PROGRAM}" EXT)
if(NOT COMPILED)
  include("${CMAKE_CURRENT_LIST_DIR}/patched.cmake")
  get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
  foreach(setting FLAGS BEFORE AFTER)
    separate_arguments(${setting} UNIX_COMMAND "${${setting}}")
  endforeach()
  set(linked_after "-I${SOURCE_DIR}/include" ${AFTER} "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}")
  set(linked_before ${BEFORE})
endif()

# loss_of(<when> <place>): the loss that the program of then prints.
function(loss_of when place)
  set(command "${COMPILED}" ${when})
  if(NOT COMPILED)
    set(command "${WORK_DIR}/${when}")
    execute_process(
      COMMAND "${COMPILER}" -O2 -Wall -Wextra -Wpedantic -Werror "${WORK_DIR}/${when}${extension}" -o ${command}
              ${linked_${when}} ${FLAGS}
      COMMAND_ERROR_IS_FATAL ANY)
  endif()
  execute_process(COMMAND ${command} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "${when}: ${printed}")
  if(NOT printed MATCHES "^loss 0\\.([0-9]+)")
    message(FATAL_ERROR "${when}, the program printed: ${printed}")
  endif()
  set(${place} "1${CMAKE_MATCH_1}" PARENT_SCOPE) # as a whole number: its last digits
endfunction()

loss_of(before before)
loss_of(after after)
# Sums in another order may round otherwise.
math(EXPR difference "${after} - ${before}")
if(difference LESS -2 OR difference GREATER 2)
  message(FATAL_ERROR "another loss after the patch: ${difference} in the last digit")
endif()
