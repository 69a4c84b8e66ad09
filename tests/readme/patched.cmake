# Writes PROGRAM as it is to WORK_DIR/before, and with the patch NAME.diff of docs/loop.md, which PATCH applies, to WORK_DIR/after.
# MAIN: what stands there for `int main()`.
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
  file(WRITE "${WORK_DIR}/${file}${extension}" "${text}")
endfunction()

file(COPY "${SOURCE_DIR}/${PROGRAM}" DESTINATION "${WORK_DIR}/${folder}")
take_block("${NAME}.diff" "${WORK_DIR}/${NAME}.diff" docs/loop.md)
write_program(before)
execute_process(COMMAND ${PATCH} -i "${NAME}.diff" WORKING_DIRECTORY "${WORK_DIR}" COMMAND_ERROR_IS_FATAL ANY)
write_program(after)
