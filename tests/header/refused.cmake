# SOURCE compiles as LANGUAGE (a standard such as c99 or c++17), and with WRONG defined it is refused for
# the reason that its opening comment gives.
file(READ "${SOURCE}" text)
if(NOT text MATCHES "refused: ([^\n]*) \\*/")
  message(FATAL_ERROR "${SOURCE} does not say why it is refused")
endif()
set(reason "${CMAKE_MATCH_1}")
set(language c)
if(LANGUAGE MATCHES "\\+\\+")
  set(language c++)
endif()
# Some warnings about unused results come with the code only.
set(compile "${COMPILER}" -x ${language} -std=${LANGUAGE} -Wall -Wextra -Wpedantic -Wconversion -Werror
    "-I${INCLUDE}" -c -o "${OUTPUT}")
execute_process(COMMAND ${compile} "${SOURCE}" RESULT_VARIABLE status ERROR_VARIABLE complaints)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "what is right does not compile:\n${complaints}")
endif()
execute_process(COMMAND ${compile} -DWRONG "${SOURCE}" RESULT_VARIABLE status
                ERROR_VARIABLE complaints)
if(status EQUAL 0)
  message(FATAL_ERROR "what is wrong compiles")
endif()
if(NOT complaints MATCHES "${reason}")
  message(FATAL_ERROR "refused, but not because of ${reason}:\n${complaints}")
endif()
