# Extracts a block of a document. The line above its ``` is <!-- file: NAME -->, which readers do not see.
#   cmake -DDOCUMENT=README.md -DNAME=first.c -DOUTPUT=first.c -P extract_block.cmake
file(READ "${DOCUMENT}" text)

set(mark "\n<!-- file: ${NAME} -->\n```")
string(FIND "${text}" "${mark}" start)
if(start EQUAL -1)
  message(FATAL_ERROR "${DOCUMENT} has no block '${NAME}'")
endif()
string(LENGTH "${mark}" length)
math(EXPR start "${start} + ${length}")
string(SUBSTRING "${text}" ${start} -1 text)
# The rest of the line is the block's language.
string(FIND "${text}" "\n" start)
math(EXPR start "${start} + 1")
string(SUBSTRING "${text}" ${start} -1 text)
string(FIND "${text}" "\n```" end)
if(end EQUAL -1)
  message(FATAL_ERROR "${DOCUMENT}: the block '${NAME}' is not closed")
endif()
math(EXPR end "${end} + 1")
string(SUBSTRING "${text}" 0 ${end} text)
file(WRITE "${OUTPUT}" "${text}")
