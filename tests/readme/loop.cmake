# Applies the patch NAME.diff of docs/loop.md to PROGRAM, with PATCH, runs the program before and after, and compares the losses
# that they print. FLAGS, BEFORE and AFTER: what to compile and link both with, and either.
include("${CMAKE_CURRENT_LIST_DIR}/block.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
get_filename_component(folder "${PROGRAM}" DIRECTORY)
get_filename_component(extension "${PROGRAM}" EXT)
file(COPY "${SOURCE_DIR}/${PROGRAM}" DESTINATION "${WORK_DIR}/${folder}")
take_block("${NAME}.diff" "${WORK_DIR}/${NAME}.diff" docs/loop.md)

get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
foreach(setting FLAGS BEFORE AFTER PATCH)
  separate_arguments(${setting} UNIX_COMMAND "${${setting}}")
endforeach()
set(LINKED_AFTER "-I${SOURCE_DIR}/include" ${AFTER} "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}")
set(LINKED_BEFORE ${BEFORE})

# loss_of(<when> <place>): compiles the program as it is now; the loss that it prints.
function(loss_of when place)
  execute_process(
    COMMAND "${COMPILER}" -O2 -Wall -Wextra -Wpedantic -Werror "${WORK_DIR}/${PROGRAM}" -o "${WORK_DIR}/${when}"
            ${LINKED_${when}} ${FLAGS}
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${WORK_DIR}/${when}" OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "${when}: ${printed}")
  if(NOT printed MATCHES "^loss 0\\.([0-9]+)")
    message(FATAL_ERROR "${when}, the program printed: ${printed}")
  endif()
  set(${place} "1${CMAKE_MATCH_1}" PARENT_SCOPE) # as a whole number: its last digits
endfunction()

loss_of(BEFORE before)
execute_process(COMMAND ${PATCH} -i "${NAME}.diff" WORKING_DIRECTORY "${WORK_DIR}" COMMAND_ERROR_IS_FATAL ANY)
loss_of(AFTER after)
# Sums in another order may round otherwise.
math(EXPR difference "${after} - ${before}")
if(difference LESS -2 OR difference GREATER 2)
  message(FATAL_ERROR "another loss after the patch: ${difference} in the last digit")
endif()
