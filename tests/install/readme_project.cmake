# README's PROJECT, a CMakeLists.txt as it is printed, with README's first program beside it: configured with SETTINGS and
# without a build type, built with optimisation, and run.
include("${CMAKE_CURRENT_LIST_DIR}/printed_project.cmake")

set(folder "${WORK_DIR}-readme/${PROJECT}")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(first.c "${folder}/first.c")
take_block("${PROJECT}/CMakeLists.txt" "${folder}/CMakeLists.txt")

string(REPLACE "+" ";" settings "${SETTINGS}")
build_printed_project("${PROJECT}" "${folder}" "-DCMAKE_C_COMPILER=${C_COMPILER}" ${settings})
expect_output("${PROJECT}" "${folder}" "${folder}/build/first")
