# The headers for C++ and all files of SOURCES are one unit, which COMPILER reads as STANDARD with OPTIONS.
# What is right compiles. If it REFUSES, each file with WRONG defined is refused for the reason that its opening comment gives.
set(text "")
# Each header is the first once, and read again.
foreach(header tensorflow.hpp umbo.hpp tensorflow.hpp umbo.hpp)
  string(APPEND text "#include <umbo/${header}>\n")
endforeach()
string(REPLACE "+" ";" SOURCES "${SOURCES}")
string(REPLACE "+" ";" OPTIONS "${OPTIONS}")
foreach(source IN LISTS SOURCES)
  string(APPEND text "#include \"${source}\"\n")
endforeach()
file(WRITE "${UNIT}" "${text}")

set(compile "${COMPILER}" -x c++ -std=${STANDARD} -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wundef
    -Wold-style-cast -Werror ${OPTIONS} -fsyntax-only "-I${INCLUDE}")
execute_process(COMMAND ${compile} "${UNIT}" RESULT_VARIABLE status ERROR_VARIABLE complaints)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "what is right does not compile:\n${complaints}")
endif()

if(NOT REFUSES)
  return()
endif()
# One line for each place that a message names.
set(lines -fno-diagnostics-show-caret)
if(KIND STREQUAL "clang")
  set(lines -fno-caret-diagnostics -ferror-limit=0)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C ${compile} ${lines} -DWRONG "${UNIT}" ERROR_VARIABLE complaints)
foreach(source IN LISTS SOURCES)
  file(READ "${source}" text)
  if(NOT text MATCHES "refused: ([^\n]*) \\*/")
    message(FATAL_ERROR "${source} does not say why it is refused")
  endif()
  set(reason "${CMAKE_MATCH_1}")
  get_filename_component(name "${source}" NAME_WE)
  set(place "${name}\\.cpp:[0-9:]+ ")
  # The error is in the file, or in a header that gcc comes to from there, or that clang came to.
  if(NOT complaints MATCHES "${place}error: [^\n]*${reason}" AND
     NOT complaints MATCHES "${place} *required from here\n[^\n]*error: [^\n]*${reason}" AND
     NOT complaints MATCHES "error: [^\n]*${reason}[^\n]*\n([^\n]*: note: in instantiation [^\n]*\n)*[^\n]*${place}note: in instantiation")
    message(FATAL_ERROR "${name} is not refused because of ${reason}:\n${complaints}")
  endif()
endforeach()
