# Compiles the programs of DOCUMENT (NAMES, with "+" between them). RUN: also runs them and compares what they print with
# the document's block of the same name that ends in .txt; functions without main are compiled only. A name that ends in
# _20.cpp is C++20. PROGRAM: runs a program in C that includes them all; INCLUDED: they need it, and do not compile alone.
include("${CMAKE_CURRENT_LIST_DIR}/block.cmake")
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
# Every program of the document is named.
string(REPLACE "+" ";" names "${NAMES}")
file(READ "${SOURCE_DIR}/docs/${DOCUMENT}" text)
string(REGEX MATCHALL "<!-- file: [a-z_0-9]+\\.c[p]* -->" marks "${text}")
list(LENGTH marks there_are)
list(LENGTH names named)
if(NOT there_are EQUAL named)
  message(FATAL_ERROR "${DOCUMENT} has ${there_are} programs, and ${named} are tested: ${marks}")
endif()

get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror "-I${SOURCE_DIR}/include")
foreach(name IN LISTS names)
  take_block("${name}" "${WORK_DIR}/${name}" "docs/${DOCUMENT}")
  if(INCLUDED)
    continue()
  endif()
  get_filename_component(stem "${name}" NAME_WE)
  file(READ "${WORK_DIR}/${name}" source)
  string(FIND "${source}" "int main(" has_main)
  math(EXPR has_main "${has_main} + 1") # 0: it has none
  if(name MATCHES "\\.cpp$")
    set(standard c++17)
    if(name MATCHES "_20\\.cpp$")
      set(standard c++20)
    endif()
    set(command "${CXX_COMPILER}" -std=${standard} -O1 ${warnings} "${WORK_DIR}/${name}")
    if(has_main)
      list(APPEND command -o "${WORK_DIR}/${stem}" "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}")
    else()
      list(APPEND command -Wno-unused-function -include umbo/umbo.hpp -c -o "${WORK_DIR}/${stem}.o")
    endif()
  else()
    # A function of a program, which has included these.
    set(command "${C_COMPILER}" -std=c99 ${warnings} -Wno-unused-function -include stdio.h -include stdlib.h
        -include umbo/umbo.h -c "${WORK_DIR}/${name}"
        -o "${WORK_DIR}/${stem}.o")
  endif()
  execute_process(COMMAND ${command} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${DOCUMENT}: ${name} does not compile")
  endif()
  if(RUN AND has_main)
    take_block("${stem}.txt" "${WORK_DIR}/${stem}.txt" "docs/${DOCUMENT}")
    file(READ "${WORK_DIR}/${stem}.txt" expected)
    execute_process(COMMAND "${WORK_DIR}/${stem}" WORKING_DIRECTORY "${WORK_DIR}" RESULT_VARIABLE status
                    OUTPUT_VARIABLE printed ERROR_VARIABLE complaints)
    if(NOT status EQUAL 0 OR NOT printed STREQUAL expected)
      message(SEND_ERROR "${DOCUMENT}: ${name} ended with ${status}\n--- the document says\n${expected}"
                         "--- it printed\n${printed}${complaints}")
    endif()
  endif()
endforeach()

if(PROGRAM)
  get_filename_component(stem "${PROGRAM}" NAME_WE)
  execute_process(
    COMMAND "${C_COMPILER}" -std=c99 ${warnings} -include umbo/umbo.h "-I${WORK_DIR}" "${PROGRAM}" -o "${WORK_DIR}/${stem}"
            "${library_directory}/libumbo.so" "-Wl,-rpath,${library_directory}" -lm
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${DOCUMENT}: ${PROGRAM} does not compile")
  endif()
  execute_process(COMMAND "${WORK_DIR}/${stem}" WORKING_DIRECTORY "${WORK_DIR}" RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${DOCUMENT}: ${PROGRAM} ended with ${status}")
  endif()
endif()
