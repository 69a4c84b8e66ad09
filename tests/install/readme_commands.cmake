# README's COMMANDS, a script as it is printed but for the prefix, beside README's first program.
include("${SOURCE_DIR}/tests/readme/block.cmake")

set(folder "${WORK_DIR}-readme/${COMMANDS}")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(first.c "${folder}/first.c")
take_block("${COMMANDS}" "${folder}/${COMMANDS}")
file(READ "${folder}/${COMMANDS}" text)
# Some systems' libraries are in lib64 or below lib.
file(GLOB_RECURSE description "${PREFIX}/umbo.pc")
get_filename_component(directory "${description}" DIRECTORY)
get_filename_component(libraries "${directory}" DIRECTORY)
string(REPLACE "/where/you/want/it/lib" "${libraries}" text "${text}")
file(WRITE "${folder}/${COMMANDS}" "${text}")
expect_output("${COMMANDS}" "${folder}" sh -eu "${folder}/${COMMANDS}")
