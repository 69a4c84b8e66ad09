# Asks rustc which system libraries the static library needs and compares with the
# list that goes into the CMake package and umbo.pc.
string(REPLACE "+" ";" flags "${CARGO_FLAGS}")
string(REPLACE "+" " " expected "${EXPECTED}")
execute_process(
  COMMAND "${CARGO}" rustc ${flags} --package umbo --lib --crate-type staticlib --
          --print native-static-libs
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT output MATCHES "native-static-libs: ([^\n]*)")
  message(FATAL_ERROR "rustc did not say which libraries are needed (${status}):\n${output}")
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
