# What cmake/link_for_glibc.sh links of the static library needs nothing of a later glibc than it says, takes the unwinder of the
# system, and runs. The library has been linked without it for this machine.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

set(folder "${WORK_DIR}-old_glibc")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
file(GLOB_RECURSE archive "${PREFIX}/libumbo.a")
string(REPLACE "+" ";" libraries "${LIBRARIES}")
set(library "${folder}/${SONAME}")
step("linking" "${CMAKE_COMMAND}" -E env "UMBO_ZIG=${ZIG}" "UMBO_ZIG_TARGET=${TARGET}" "UMBO_CC=${C_COMPILER}"
     "${LINK}" -shared -o "${library}" -Wl,--whole-archive "${archive}" -Wl,--no-whole-archive
     "-Wl,--version-script=${SOURCE_DIR}/cmake/umbo.map" -Wl,-soname,${SONAME} -Wl,--gc-sections -Wl,-z,now ${libraries})

step("reading the symbols" "${CMAKE_COMMAND}" -E env LC_ALL=C "${READELF}" --wide --dyn-syms --dynamic "${library}")
string(REGEX MATCHALL "@GLIBC_[0-9.]+" versions "${STEP_OUTPUT}")
list(REMOVE_DUPLICATES versions)
list(LENGTH versions count)
if(count LESS 3)
  message(FATAL_ERROR "the versions of glibc that it needs are '${versions}'")
endif()
string(REGEX REPLACE "^.*\\.(2\\.[0-9]+)$" "\\1" oldest "${TARGET}")
foreach(version IN LISTS versions)
  string(REPLACE "@GLIBC_" "" version "${version}")
  if(version VERSION_GREATER oldest)
    message(SEND_ERROR "it needs glibc ${version}; ${oldest} is expected")
  endif()
endforeach()
# A function that the old glibc has not is undefined without a version. A weak one may be missing.
string(REGEX MATCHALL "GLOBAL DEFAULT +UND [a-z_0-9A-Z]+\n" unknown "${STEP_OUTPUT}")
if(unknown)
  message(SEND_ERROR "glibc ${oldest} has no such functions: ${unknown}")
endif()
if(NOT STEP_OUTPUT MATCHES "NEEDED.*libgcc_s.so.1" OR NOT STEP_OUTPUT MATCHES "UND _Unwind_RaiseException@GCC")
  message(SEND_ERROR "the unwinder is not that of libgcc_s: ${STEP_OUTPUT}")
endif()

step("compiling" "${C_COMPILER}" -O2 "-I${SOURCE_DIR}/include" "${SOURCE_DIR}/c_examples/07_checkpoint.c"
     -o "${folder}/program" "${library}" -lm)
execute_process(COMMAND "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${folder}" "${folder}/program"
                WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT output MATCHES "the same bits")
  message(FATAL_ERROR "the program ended with ${status}: ${output}")
endif()

# The option gives both linkers this script, and refuses what Rust has no library for.
set(configure "${CMAKE_COMMAND}" -S "${SOURCE_DIR}" -G "${GENERATOR}" "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DUMBO_ZIG=${ZIG}"
    -DUMBO_BUILD_TESTS=OFF -DUMBO_BUILD_EXAMPLES=OFF)
step("configuring" ${configure} -B "${folder}/configured" "-DUMBO_OLDEST_GLIBC=${oldest}")
set(commands "")
file(GLOB_RECURSE files "${folder}/configured/build.ninja" "${folder}/configured/*.make")
foreach(file IN LISTS files)
  file(READ "${file}" text)
  string(APPEND commands "${text}")
endforeach()
foreach(linker IN ITEMS "CARGO_TARGET_[A-Z0-9_]+_LINKER=[^ ]*/link_for_glibc_${oldest}.sh" "UMBO_ZIG_TARGET=[^ ]*-linux-gnu.${oldest}"
                        "/cmake/link_for_glibc.sh -shared")
  if(NOT commands MATCHES "${linker}")
    message(SEND_ERROR "no command has ${linker}")
  endif()
endforeach()
if(NOT EXISTS "${folder}/configured/link_for_glibc_${oldest}.sh")
  message(SEND_ERROR "the tool has no linker")
endif()
execute_process(COMMAND ${configure} -B "${folder}/refused" -DUMBO_OLDEST_GLIBC=2.16 RESULT_VARIABLE status
                OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "UMBO_OLDEST_GLIBC is '2.16'")
  message(SEND_ERROR "2.16 is taken: ${status}, ${output}")
endif()
