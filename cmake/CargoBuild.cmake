# Runs cargo and lays its results out as an ordinary library: the real file
# libumbo.so.X.Y.Z, the links libumbo.so.X.Y (the SONAME) and libumbo.so, and
# libumbo.a. Defines the target umbo_cargo and the paths UMBO_SHARED_LIBRARY,
# UMBO_STATIC_LIBRARY and UMBO_TOOL, which is empty without the tool. On Windows these are cargo's own umbo.dll, libumbo.dll.a (UMBO_IMPORT_LIBRARY),
# libumbo.a and umbo.exe, which has no symbol versions.
#
# cargo's own libumbo.so has no symbol versions: rustc gives the linker a version script without names, and linkers take no
# second one. So the shared library is linked here, from libumbo.a, with umbo.map.

find_program(UMBO_CARGO cargo HINTS "$ENV{CARGO_HOME}/bin" "$ENV{HOME}/.cargo/bin"
             DOC "Rust's build tool")
if(NOT UMBO_CARGO)
  message(FATAL_ERROR "umbo: cargo was not found. Install Rust (https://rustup.rs), "
                      "or give its place with -DUMBO_CARGO=/path/to/cargo.")
endif()

# An older Rust says nothing that helps: it does not understand the manifest.
file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml" oldest_rust REGEX "^rust-version = " LIMIT_COUNT 1)
string(REGEX MATCH "[0-9.]+" oldest_rust "${oldest_rust}")
execute_process(COMMAND "${UMBO_CARGO}" --version OUTPUT_VARIABLE cargo_version ERROR_VARIABLE cargo_version)
if(NOT cargo_version MATCHES "^cargo ([0-9.]+)" OR CMAKE_MATCH_1 VERSION_LESS oldest_rust)
  string(STRIP "${cargo_version}" cargo_version)
  message(FATAL_ERROR "umbo: Rust ${oldest_rust} or newer is needed. ${UMBO_CARGO} says '${cargo_version}'. "
                      "'rustup update stable' (https://rustup.rs) brings a newer one; "
                      "-DUMBO_CARGO=/path/to/cargo names another.")
endif()

# A multi-configuration generator has no build type while it configures; it gets release.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(UMBO_CARGO_PROFILE dev)
  set(profile_directory debug)
elseif(CMAKE_BUILD_TYPE STREQUAL "MinSizeRel")
  set(UMBO_CARGO_PROFILE min-size)
  set(profile_directory min-size)
else()
  set(UMBO_CARGO_PROFILE release)
  set(profile_directory release)
endif()

set(UMBO_CARGO_FLAGS --locked --profile ${UMBO_CARGO_PROFILE}
    --manifest-path "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml"
    --target-dir "${UMBO_CARGO_TARGET_DIR}")
option(UMBO_BUILD_TOOL "Build the command-line tool too" ON)
set(cargo_packages --package umbo)
if(UMBO_BUILD_TOOL)
  list(APPEND cargo_packages --package umbo-tool)
endif()
set(UMBO_CARGO_FEATURES_OF "" CACHE STRING
    "Another package of the workspace: crates have the features that it wants, too, and what cargo builds of them serves both")
mark_as_advanced(UMBO_CARGO_FEATURES_OF)
if(UMBO_CARGO_FEATURES_OF)
  list(APPEND cargo_packages --package "${UMBO_CARGO_FEATURES_OF}")
endif()
set(all_features checkpoints checks cuda files mpi nccl ranks rules-extra tensorflow trace vectors)
set(UMBO_FEATURES "${all_features}" CACHE STRING
    "Optional parts of the library, any of ${all_features}; the functions of others fail")
set(library_features "")
set(tool_features "")
if(NOT UMBO_FEATURES STREQUAL all_features)
  set(library_features --no-default-features)
  set(tool_features --no-default-features --features=umbo-tool/plot)
  foreach(feature IN LISTS UMBO_FEATURES)
    if(NOT feature IN_LIST all_features)
      message(FATAL_ERROR "umbo: UMBO_FEATURES has '${feature}'; possible are ${all_features}.")
    endif()
    list(APPEND library_features --features=umbo/${feature})
    list(APPEND tool_features --features=umbo-tool/${feature})
  endforeach()
endif()
set(UMBO_CARGO_ENVIRONMENT "")
# cargo looks for the compiler on PATH alone, where it need not be if cargo was named or found in the home folder.
get_filename_component(cargo_directory "${UMBO_CARGO}" DIRECTORY)
find_program(UMBO_RUSTC_ON_PATH rustc)
mark_as_advanced(UMBO_RUSTC_ON_PATH)
if(NOT UMBO_RUSTC_ON_PATH AND EXISTS "${cargo_directory}/rustc")
  list(APPEND UMBO_CARGO_ENVIRONMENT "RUSTC=${cargo_directory}/rustc")
endif()
# What is shipped has no folder of this machine in it; debuggers find the sources of a debug build where they are.
if(CMAKE_HOST_UNIX AND NOT UMBO_CARGO_PROFILE STREQUAL "dev")
  list(APPEND UMBO_CARGO_ENVIRONMENT "RUSTC_WRAPPER=${CMAKE_CURRENT_SOURCE_DIR}/cmake/rustc_without_paths.sh"
       "UMBO_RUSTC_WRAPPER=$ENV{RUSTC_WRAPPER}")
endif()
set(cargo_output "${UMBO_CARGO_TARGET_DIR}/${profile_directory}")
if(UMBO_RUST_TARGET)
  list(APPEND UMBO_CARGO_FLAGS --target ${UMBO_RUST_TARGET})
  set(cargo_output "${UMBO_CARGO_TARGET_DIR}/${UMBO_RUST_TARGET}/${profile_directory}")
  if(CMAKE_CROSSCOMPILING)
    # The linker that knows the target is the one CMake was given for it.
    string(TOUPPER "${UMBO_RUST_TARGET}" triple)
    string(REPLACE "-" "_" triple "${triple}")
    list(APPEND UMBO_CARGO_ENVIRONMENT "CARGO_TARGET_${triple}_LINKER=${CMAKE_C_COMPILER}")
  endif()
elseif(WIN32 AND CMAKE_CROSSCOMPILING)
  message(FATAL_ERROR "umbo: building for Windows needs -DCMAKE_TOOLCHAIN_FILE=cmake/mingw.cmake")
elseif(CMAKE_CROSSCOMPILING)
  message(FATAL_ERROR "umbo: cross-compiling needs -DUMBO_RUST_TARGET=<Rust target triple>")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/OldestGlibc.cmake")

set(UMBO_SONAME "libumbo.so.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(library_directory "${CMAKE_CURRENT_BINARY_DIR}/lib")
set(UMBO_SHARED_LIBRARY "${library_directory}/libumbo.so.${PROJECT_VERSION}")
set(UMBO_STATIC_LIBRARY "${library_directory}/libumbo.a")
set(UMBO_IMPORT_LIBRARY "")
set(UMBO_TOOL "")
set(copy_tool "")
if(UMBO_BUILD_TOOL)
  set(UMBO_TOOL "${CMAKE_CURRENT_BINARY_DIR}/bin/umbo${CMAKE_EXECUTABLE_SUFFIX}")
  set(copy_tool COMMAND ${CMAKE_COMMAND} -E copy "${cargo_output}/umbo${CMAKE_EXECUTABLE_SUFFIX}" "${UMBO_TOOL}")
endif()
if(WIN32)
  set(UMBO_SHARED_LIBRARY "${CMAKE_CURRENT_BINARY_DIR}/bin/umbo.dll")
  set(UMBO_IMPORT_LIBRARY "${library_directory}/libumbo.dll.a")
endif()

separate_arguments(shared_linker_flags NATIVE_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
# Threads and thread-locals of the library outlive dlclose: nodelete.
set(link_shared_library
  ${UMBO_LINKER} -shared -o "${UMBO_SHARED_LIBRARY}"
  -Wl,--whole-archive "${UMBO_STATIC_LIBRARY}" -Wl,--no-whole-archive
  "-Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/umbo.map" -Wl,-soname,${UMBO_SONAME}
  -Wl,--gc-sections -Wl,--build-id -Wl,-O1 -Wl,-z,nodelete,-z,relro,-z,now,-z,noexecstack
  ${shared_linker_flags} -Wl,--as-needed ${UMBO_NATIVE_STATIC_LIBRARIES})
set(shared_library_files
  "${UMBO_SHARED_LIBRARY}" "${library_directory}/${UMBO_SONAME}" "${library_directory}/libumbo.so")
set(make_shared_library
  COMMAND ${link_shared_library}
  COMMAND ${CMAKE_COMMAND} -E create_symlink
          "libumbo.so.${PROJECT_VERSION}" "${library_directory}/${UMBO_SONAME}"
  COMMAND ${CMAKE_COMMAND} -E create_symlink
          "${UMBO_SONAME}" "${library_directory}/libumbo.so")
if(WIN32)
  set(shared_library_files "${UMBO_SHARED_LIBRARY}" "${UMBO_IMPORT_LIBRARY}")
  set(make_shared_library
    COMMAND ${CMAKE_COMMAND} -E copy "${cargo_output}/umbo.dll" "${UMBO_SHARED_LIBRARY}"
    COMMAND ${CMAKE_COMMAND} -E copy "${cargo_output}/libumbo.dll.a" "${UMBO_IMPORT_LIBRARY}")
endif()

# The smallest library is optimised as a whole, which cargo does where it is asked for one kind of library, and the tool with it.
set(remove_tables "")
set(cargo "${CMAKE_COMMAND}" -E env ${UMBO_CARGO_ENVIRONMENT} "${UMBO_CARGO}")
if(UMBO_CARGO_PROFILE STREQUAL "min-size")
  set(kinds staticlib)
  if(WIN32)
    set(kinds staticlib,cdylib)
  endif()
  set(run_cargo
    COMMAND ${cargo} rustc ${UMBO_CARGO_FLAGS} --package umbo ${library_features} --lib --crate-type ${kinds})
  if(UMBO_BUILD_TOOL)
    list(APPEND run_cargo COMMAND ${cargo} build ${UMBO_CARGO_FLAGS} --package umbo-tool ${tool_features} --bins)
  endif()
  # Where a panic ends the process, nobody reads the tables for unwinding, which are a sixth of the library.
  if(CMAKE_OBJCOPY AND NOT WIN32)
    set(remove_tables COMMAND "${CMAKE_OBJCOPY}" --wildcard --remove-section=.eh_frame "--remove-section=.gcc_except_table*"
                              "${UMBO_STATIC_LIBRARY}")
  endif()
else()
  set(cargo_features ${library_features})
  if(UMBO_BUILD_TOOL)
    list(APPEND cargo_features ${tool_features})
    list(REMOVE_DUPLICATES cargo_features)
  endif()
  set(run_cargo COMMAND ${cargo} build ${UMBO_CARGO_FLAGS} ${cargo_packages} ${cargo_features} --lib --bins)
endif()

file(GLOB_RECURSE rust_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/*"
     "${CMAKE_CURRENT_SOURCE_DIR}/crates/*"
     "${CMAKE_CURRENT_SOURCE_DIR}/macros/src/*" "${CMAKE_CURRENT_SOURCE_DIR}/tool/src/*")
file(GLOB cargo_inputs CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.toml" "${CMAKE_CURRENT_SOURCE_DIR}/Cargo.lock"
     "${CMAKE_CURRENT_SOURCE_DIR}/macros/Cargo.toml" "${CMAKE_CURRENT_SOURCE_DIR}/tool/Cargo.toml"
     "${CMAKE_CURRENT_SOURCE_DIR}/build.rs"
     "${CMAKE_CURRENT_SOURCE_DIR}/cmake/umbo.map"
     "${CMAKE_CURRENT_SOURCE_DIR}/cmake/link_for_glibc.sh"
     "${CMAKE_CURRENT_SOURCE_DIR}/.cargo/config.toml"
     "${CMAKE_CURRENT_SOURCE_DIR}/rust-toolchain.toml")

add_custom_command(
  OUTPUT ${shared_library_files} "${UMBO_STATIC_LIBRARY}" ${UMBO_TOOL}
  ${run_cargo}
  COMMAND ${CMAKE_COMMAND} -E make_directory "${library_directory}"
          "${CMAKE_CURRENT_BINARY_DIR}/bin"
  COMMAND ${CMAKE_COMMAND} -E copy "${cargo_output}/libumbo.a" "${UMBO_STATIC_LIBRARY}"
  ${remove_tables}
  ${make_shared_library}
  ${copy_tool}
  DEPENDS ${rust_sources} ${cargo_inputs}
  COMMENT "Building libumbo ${PROJECT_VERSION} with cargo (profile ${UMBO_CARGO_PROFILE})"
  USES_TERMINAL VERBATIM)
add_custom_target(umbo_cargo ALL DEPENDS "${UMBO_SHARED_LIBRARY}" "${UMBO_STATIC_LIBRARY}" ${UMBO_TOOL})
