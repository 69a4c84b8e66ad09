# A program that links libumbo records its SONAME, never a path; the library itself
# needs the C runtime only and must stay mapped, because its threads outlive dlclose.
execute_process(COMMAND "${READELF}" -dW "${LIBRARY}"
                OUTPUT_VARIABLE section RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${READELF} could not read ${LIBRARY}")
endif()

string(REPLACE "." "\\." soname_pattern "${SONAME}")
if(NOT section MATCHES "\\(SONAME\\)[^\n]*\\[${soname_pattern}\\]")
  message(SEND_ERROR "the SONAME is not ${SONAME}:\n${section}")
endif()
if(NOT section MATCHES "NODELETE")
  message(SEND_ERROR "the library is not linked with -z nodelete:\n${section}")
endif()
if(section MATCHES "\\((RPATH|RUNPATH|TEXTREL)\\)")
  message(SEND_ERROR "the library has a ${CMAKE_MATCH_1} entry:\n${section}")
endif()

string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*" needed_lines "${section}")
foreach(line IN LISTS needed_lines)
  string(REGEX REPLACE ".*: \\[([^]]*)\\].*" "\\1" library "${line}")
  if(NOT library MATCHES "^(libc|libm|libdl|librt|libutil|libpthread|libgcc_s)\\.so\\.[0-9]+$"
     AND NOT library MATCHES "^ld-linux[-_a-z0-9]*\\.so\\.[0-9]+$")
    message(SEND_ERROR "the library needs ${library}, which is no part of the C runtime")
  endif()
endforeach()
