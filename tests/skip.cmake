# A skip is a decision that is written down: tests/skipped.txt names what may be
# skipped. Exit code 77 counts as skipped for those names only; anywhere else it fails.
file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/skipped.txt" skipped_lines REGEX "^[^#]+:")
set(UMBO_MAY_SKIP "")
foreach(line IN LISTS skipped_lines)
  string(REGEX REPLACE ":.*" "" skipped_name "${line}")
  list(APPEND UMBO_MAY_SKIP "${skipped_name}")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
             "${CMAKE_CURRENT_SOURCE_DIR}/skipped.txt")

function(umbo_allow_skip name)
  if(name IN_LIST UMBO_MAY_SKIP)
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# Stands in for a test that cannot be made on this machine, so that ctest reports it.
function(umbo_skipped_test name reason)
  message(STATUS "umbo: test ${name} is skipped: ${reason}")
  add_test(NAME ${name} COMMAND "${UMBO_SOURCE_DIR}/scripts/skip.sh" ${name} "${reason}")
  set_tests_properties(${name} PROPERTIES TIMEOUT 10)
  umbo_allow_skip(${name})
endfunction()
