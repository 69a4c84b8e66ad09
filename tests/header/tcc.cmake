# Each of SOURCES compiles with tcc, which takes one at a time.
string(REPLACE "+" ";" SOURCES "${SOURCES}")
foreach(source IN LISTS SOURCES)
  execute_process(COMMAND "${COMPILER}" -xc -Wall -Werror "-I${INCLUDE}" -c "${source}" -o "${OUTPUT}"
                  RESULT_VARIABLE status ERROR_VARIABLE complaints)
  if(NOT status EQUAL 0)
    message(SEND_ERROR "${source}:\n${complaints}")
  endif()
endforeach()
