# Programs of a release run with LIBRARY: each archive in RELEASED has the headers, the examples, and the names and versions of
# the functions of its time, which scripts/release.sh puts there. The programs are compiled with those headers, and linked with a
# library of which those functions are empty. Before the first release the present ones are taken, and archives of
# another SONAME, with another ABI, are left out.
#
# COMPILER: for C. SONAME: the library's. WORK_DIR: where all is unpacked and compiled.
file(REMOVE_RECURSE "${WORK_DIR}")
string(REGEX REPLACE "^libumbo\\.so\\." "" minor_version "${SONAME}")
file(GLOB archives "${RELEASED}/${minor_version}.*.tar.xz")
if(NOT archives)
  set(archives "${WORK_DIR}/present.tar.xz")
  file(MAKE_DIRECTORY "${WORK_DIR}")
  execute_process(COMMAND "${SOURCE_DIR}/scripts/release.sh" --freeze "${archives}" COMMAND_ERROR_IS_FATAL ANY)
endif()
foreach(archive IN LISTS archives)
  cmake_path(GET archive FILENAME name)
  string(REPLACE ".tar.xz" "" name "${name}")
  set(folder "${WORK_DIR}/${name}")
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${folder}")
  file(STRINGS "${folder}/tests/abi/symbols.txt" functions)
  file(STRINGS "${folder}/tests/abi/experimental.txt" experimental)
  list(APPEND functions ${experimental})
  list(TRANSFORM functions REPLACE "(.+)" "void \\1(void) {}\n")
  string(JOIN "" functions ${functions})
  file(WRITE "${folder}/functions.c" "${functions}")
  execute_process(
    COMMAND "${COMPILER}" -shared -fPIC -nostdlib "-Wl,-soname,${SONAME}" "-Wl,--version-script=${folder}/cmake/umbo.map"
            "${folder}/functions.c" -o "${folder}/libumbo.so"
    COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB programs "${folder}/c_examples/*.c")
  list(LENGTH programs count)
  if(count LESS 8)
    message(FATAL_ERROR "${archive} has ${count} programs; 8 or more are expected")
  endif()
  foreach(program IN LISTS programs)
    cmake_path(GET program STEM name)
    execute_process(
      COMMAND "${COMPILER}" -O1 -D_GNU_SOURCE "-I${folder}/include" "${program}" -o "${folder}/${name}"
              "${folder}/libumbo.so" -lpthread -lm
      COMMAND_ERROR_IS_FATAL ANY)
    cmake_path(GET LIBRARY PARENT_PATH library_folder)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${library_folder}" "${folder}/${name}"
      WORKING_DIRECTORY "${folder}" OUTPUT_QUIET RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${name} of ${archive} ended with ${status}")
    endif()
  endforeach()
endforeach()
