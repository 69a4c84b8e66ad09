# Copies PROJECT out of the source tree, configures it with the prefix alone, builds it,
# and runs its tests; or builds and runs the commands in RUN alone ("+" between them), which begin with a target.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

get_filename_component(name "${PROJECT}" NAME)
set(copy "${WORK_DIR}-${name}/source")
set(build "${WORK_DIR}-${name}/build")
file(REMOVE_RECURSE "${WORK_DIR}-${name}")
file(MAKE_DIRECTORY "${copy}")
file(COPY "${PROJECT}/" DESTINATION "${copy}")
string(REPLACE "+" ";" settings "${SETTINGS}")
step("configure ${name}" "${CMAKE_COMMAND}" -S "${copy}" -B "${build}" -G "${GENERATOR}"
     "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
     -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${PREFIX}" ${settings})
if(NOT RUN)
  step("build ${name}" "${CMAKE_COMMAND}" --build "${build}")
  get_filename_component(cmake_directory "${CMAKE_COMMAND}" DIRECTORY)
  step("test ${name}" "${CMAKE_COMMAND}" -E chdir "${build}" "${cmake_directory}/ctest" --output-on-failure)
endif()
string(REPLACE "+" ";" programs "${RUN}")
foreach(program IN LISTS programs)
  separate_arguments(command UNIX_COMMAND "${program}")
  list(POP_FRONT command executable)
  step("build ${executable}" "${CMAKE_COMMAND}" --build "${build}" --target "${executable}")
  # The programs are named by path from the build tree, their data from the source copy.
  step("run ${program}" "${CMAKE_COMMAND}" -E chdir "${copy}" "${build}/${executable}" ${command})
endforeach()
