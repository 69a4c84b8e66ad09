# The project of docs/engines.md that links LibTorch, as it is printed, with the example of LibTorch as its program: configured
# with SETTINGS alone, built with optimisation, and run.
include("${CMAKE_CURRENT_LIST_DIR}/printed_project.cmake")

set(folder "${WORK_DIR}-readme/torch")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(torch/CMakeLists.txt "${folder}/CMakeLists.txt" docs/engines.md)
file(COPY_FILE "${SOURCE_DIR}/c_examples/engines/torch.cpp" "${folder}/train.cpp")

build_printed_project(torch "${folder}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" ${SETTINGS})
step("run torch" "${CMAKE_COMMAND}" -E chdir "${folder}" "${folder}/build/train" "${SOURCE_DIR}/c_examples/data/digits")
