# Projects that documents print.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")
include("${SOURCE_DIR}/tests/readme/block.cmake")

# build_printed_project(<name> <folder> <setting>...): configures and builds the project in a folder, whose CMakeLists.txt a
# document prints; without a build type, and yet with optimisation.
function(build_printed_project name folder)
  step("configure ${name}" "${CMAKE_COMMAND}" -S "${folder}" -B "${folder}/build" -G "${GENERATOR}"
       -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${ARGN})
  step("build ${name}" "${CMAKE_COMMAND}" --build "${folder}/build")
  if(EXISTS "${folder}/build/compile_commands.json")
    file(READ "${folder}/build/compile_commands.json" commands)
    if(NOT commands MATCHES " -O[23] ")
      message(FATAL_ERROR "the printed project ${name} compiles without optimisation: ${commands}")
    endif()
  endif()
endfunction()
