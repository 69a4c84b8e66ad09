# The fake CUDA driver for ctest: a program whose environment names its folder runs on it.
#
# umbo_run_on_fake_cuda(<test> [NAME=value]...) lets a test find the driver, with settings such as
# FAKE_CUDA_DEVICES=2 in its environment.
set(UMBO_FAKE_CUDA_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/fake_cuda")
file(GLOB_RECURSE fake_cuda_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/src/*")
add_custom_command(
  OUTPUT "${UMBO_FAKE_CUDA_FOLDER}/libcuda.so.1" "${UMBO_FAKE_CUDA_FOLDER}/libcuda.so"
  COMMAND ${CMAKE_COMMAND} -E env ${UMBO_CARGO_ENVIRONMENT}
          "${UMBO_CARGO}" build ${UMBO_CARGO_FLAGS} --package fake-cuda --lib
  COMMAND ${CMAKE_COMMAND} -E make_directory "${UMBO_FAKE_CUDA_FOLDER}"
  COMMAND ${CMAKE_COMMAND} -E copy "${cargo_output}/libfake_cuda.so"
          "${UMBO_FAKE_CUDA_FOLDER}/libcuda.so.1"
  COMMAND ${CMAKE_COMMAND} -E create_symlink libcuda.so.1 "${UMBO_FAKE_CUDA_FOLDER}/libcuda.so"
  DEPENDS ${fake_cuda_sources} "${CMAKE_CURRENT_LIST_DIR}/Cargo.toml"
  WORKING_DIRECTORY "${UMBO_SOURCE_DIR}"
  COMMENT "Building the fake CUDA driver with cargo"
  USES_TERMINAL VERBATIM)
add_custom_target(umbo_fake_cuda ALL DEPENDS "${UMBO_FAKE_CUDA_FOLDER}/libcuda.so.1")
# Two cargos would wait for each other's lock.
add_dependencies(umbo_fake_cuda umbo_cargo)

function(umbo_run_on_fake_cuda name)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "LD_LIBRARY_PATH=${UMBO_FAKE_CUDA_FOLDER}" ${ARGN})
  set_property(TEST ${name} APPEND PROPERTY LABELS cuda)
endfunction()
