# The same consumer by compiler and pkg-config alone, shared and static.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

file(GLOB_RECURSE description "${PREFIX}/umbo.pc")
get_filename_component(directory "${description}" DIRECTORY)
get_filename_component(libraries "${directory}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${directory}")
set(work "${WORK_DIR}-pkg_config")
file(MAKE_DIRECTORY "${work}")

step("version" "${PKG_CONFIG}" --modversion umbo)
string(STRIP "${STEP_OUTPUT}" version)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "pkg-config says version ${version}, the library is ${VERSION}")
endif()

step("flags" "${PKG_CONFIG}" --cflags --libs umbo)
separate_arguments(flags UNIX_COMMAND "${STEP_OUTPUT}")
set(source "${CMAKE_CURRENT_LIST_DIR}/consumer/main.c")
step("compile" "${C_COMPILER}" -std=c99 "-DEXPECTED_VERSION=\"${VERSION}\"" "${source}"
     -o "${work}/shared" ${flags})
step("run" "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${libraries}" "${work}/shared")

step("static flags" "${PKG_CONFIG}" --static --cflags --libs umbo)
separate_arguments(flags UNIX_COMMAND "${STEP_OUTPUT}")
# -lumbo would find the shared library first; the archive is asked for by its file name.
list(TRANSFORM flags REPLACE "^-lumbo$" "-l:libumbo.a")
step("compile statically" "${C_COMPILER}" -std=c99 "-DEXPECTED_VERSION=\"${VERSION}\""
     "${source}" -o "${work}/static" ${flags})
step("run statically" "${work}/static")
