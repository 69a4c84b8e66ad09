# The project of docs/engines.md that links LibTorch, as it is printed, with the example of LibTorch as its program: configured
# with SETTINGS alone, built with optimisation, and run.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")
include("${SOURCE_DIR}/tests/readme/block.cmake")

set(folder "${WORK_DIR}-readme/torch")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(torch/CMakeLists.txt "${folder}/CMakeLists.txt" docs/engines.md)
file(COPY_FILE "${SOURCE_DIR}/c_examples/engines/torch.cpp" "${folder}/train.cpp")

step("configure torch" "${CMAKE_COMMAND}" -S "${folder}" -B "${folder}/build" -G "${GENERATOR}"
     "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON ${SETTINGS})
step("build torch" "${CMAKE_COMMAND}" --build "${folder}/build")
if(EXISTS "${folder}/build/compile_commands.json")
  file(READ "${folder}/build/compile_commands.json" commands)
  if(NOT commands MATCHES " -O[23] ")
    message(FATAL_ERROR "the project of docs/engines.md compiles without optimisation: ${commands}")
  endif()
endif()
step("run torch" "${CMAKE_COMMAND}" -E chdir "${folder}" "${folder}/build/train" "${SOURCE_DIR}/c_examples/data/digits")
