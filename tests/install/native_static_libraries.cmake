# Asks rustc which system libraries a static library with all of Umbo needs, and compares with the list
# that goes into the CMake package and umbo.pc. The one that rustc is asked about is made of the Rust
# library as it was built, so that nothing is compiled again.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

string(REPLACE "+" " " expected "${EXPECTED}")
set(folder "${WORK_DIR}/native_static_libraries")
file(MAKE_DIRECTORY "${folder}")
file(WRITE "${folder}/all.rs" "pub extern crate umbo;\n")
set(target "")
if(RUST_TARGET)
  set(target --target "${RUST_TARGET}")
endif()
step("asking rustc for the libraries" "${RUSTC}" --edition 2024 --crate-type staticlib ${target}
     --print native-static-libs -L "dependency=${CARGO_OUTPUT}/deps"
     --extern "umbo=${CARGO_OUTPUT}/libumbo.rlib" -o "${folder}/liball.a" "${folder}/all.rs")
# It is as large as libumbo.a.
file(REMOVE "${folder}/liball.a")
if(NOT STEP_OUTPUT MATCHES "native-static-libs: ([^\n]*)")
  message(FATAL_ERROR "rustc did not say which libraries are needed:\n${STEP_OUTPUT}")
endif()
string(STRIP "${CMAKE_MATCH_1}" needed)
# Crates that ask for a library by name make rustc list it twice.
foreach(list IN ITEMS needed expected)
  separate_arguments(${list}_set UNIX_COMMAND "${${list}}")
  list(REMOVE_DUPLICATES ${list}_set)
  list(SORT ${list}_set)
endforeach()
if(NOT needed_set STREQUAL expected_set)
  message(FATAL_ERROR "cmake/NativeStaticLibraries.cmake has\n  ${expected}\n"
                      "rustc says\n  ${needed}")
endif()
