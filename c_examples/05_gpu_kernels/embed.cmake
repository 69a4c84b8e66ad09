# Makes a C header of PTX: cmake -DPTX=<file> -DNAME=<the text> -DHEADER=<file> -P embed.cmake
file(STRINGS "${PTX}" lines)
set(text "/* Made of ${PTX}. */\nstatic const char ${NAME}[] =\n")
foreach(line IN LISTS lines)
  string(REPLACE "\\" "\\\\" line "${line}")
  string(REPLACE "\"" "\\\"" line "${line}")
  string(APPEND text "    \"${line}\\n\"\n")
endforeach()
file(WRITE "${HEADER}" "${text}    ;\n")
