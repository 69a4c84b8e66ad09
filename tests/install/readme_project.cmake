# README's PROJECT, a CMakeLists.txt as it is printed, with README's first program beside it: configured with SETTINGS and
# without a build type, built with optimisation, and run.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")
include("${SOURCE_DIR}/tests/readme/block.cmake")

set(folder "${WORK_DIR}-readme/${PROJECT}")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(first.c "${folder}/first.c")
take_block("${PROJECT}/CMakeLists.txt" "${folder}/CMakeLists.txt")

string(REPLACE "+" ";" settings "${SETTINGS}")
step("configure ${PROJECT}" "${CMAKE_COMMAND}" -S "${folder}" -B "${folder}/build" -G "${GENERATOR}"
     "-DCMAKE_C_COMPILER=${C_COMPILER}" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${settings})
step("build ${PROJECT}" "${CMAKE_COMMAND}" --build "${folder}/build")
if(EXISTS "${folder}/build/compile_commands.json")
  file(READ "${folder}/build/compile_commands.json" commands)
  if(NOT commands MATCHES " -O[23] ")
    message(FATAL_ERROR "README's ${PROJECT} compiles without optimisation: ${commands}")
  endif()
endif()
expect_output("${PROJECT}" "${folder}" "${folder}/build/first")
