# Writes PROGRAM as it is to WORK_DIR/before, and with the patch NAME.diff, which PATCH applies, to WORK_DIR/after. The patch is that
# beside the program or, without one, that of docs/loop.md. MAIN: what stands there for `int main()`. STRATEGY: what stands
# there, if it is given, for `torch_strategy(2)`.
include("${CMAKE_CURRENT_LIST_DIR}/block.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
get_filename_component(folder "${PROGRAM}" DIRECTORY)
get_filename_component(extension "${PROGRAM}" EXT)
separate_arguments(PATCH UNIX_COMMAND "${PATCH}")

# write_program(<file>): the program as it is now.
function(write_program file)
  file(READ "${WORK_DIR}/${PROGRAM}" text)
  if(MAIN)
    string(REPLACE "int main()" "${MAIN}" text "${text}")
  endif()
  if(STRATEGY)
    string(REPLACE "torch_strategy(2)" "${STRATEGY}" text "${text}")
  endif()
  file(WRITE "${WORK_DIR}/${file}${extension}" "${text}")
endfunction()

file(COPY "${SOURCE_DIR}/${PROGRAM}" DESTINATION "${WORK_DIR}/${folder}")
set(patched_in "${WORK_DIR}")
if(EXISTS "${SOURCE_DIR}/${folder}/${NAME}.diff")
  file(COPY "${SOURCE_DIR}/${folder}/${NAME}.diff" DESTINATION "${WORK_DIR}")
  set(patched_in "${WORK_DIR}/${folder}")
else()
  take_block("${NAME}.diff" "${WORK_DIR}/${NAME}.diff" docs/loop.md)
endif()
write_program(before)
execute_process(COMMAND ${PATCH} -i "${WORK_DIR}/${NAME}.diff" WORKING_DIRECTORY "${patched_in}" COMMAND_ERROR_IS_FATAL ANY)
write_program(after)
