# The fake cuBLAS for ctest, which programs find where they find the fake CUDA driver.
#
# umbo_run_on_fake_cublas(<test> [NAME=value]...) is umbo_run_on_fake_cuda() with it.
set(UMBO_FAKE_CUBLAS_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/fake_cublas")
add_library(umbo_fake_cublas SHARED "${CMAKE_CURRENT_LIST_DIR}/fake_cublas.c")
set_target_properties(umbo_fake_cublas PROPERTIES PREFIX "" OUTPUT_NAME "libcublas.so.12" SUFFIX ""
  LIBRARY_OUTPUT_DIRECTORY "${UMBO_FAKE_CUBLAS_FOLDER}" C_STANDARD 99 C_EXTENSIONS ON C_VISIBILITY_PRESET hidden)
target_compile_options(umbo_fake_cublas PRIVATE -O2 -Wall -Wextra -Werror)
target_link_libraries(umbo_fake_cublas PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

function(umbo_run_on_fake_cublas name)
  umbo_run_on_fake_cuda(${name} ${ARGN})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "LD_LIBRARY_PATH=${UMBO_FAKE_CUDA_FOLDER}:${UMBO_FAKE_CUBLAS_FOLDER}")
endfunction()
