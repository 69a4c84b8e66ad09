# An overlay port for vcpkg, of the sources that it lies in: cargo and a Rust toolchain are taken from the machine.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

# The library is not built for debugging with the programs that use it: both of their kinds get the same one.
set(VCPKG_BUILD_TYPE release)

set(umbo_rust_target "")
if(VCPKG_CROSSCOMPILING)
  if(VCPKG_TARGET_ARCHITECTURE STREQUAL "arm64")
    set(umbo_rust_target aarch64-unknown-linux-gnu)
  else()
    set(umbo_rust_target x86_64-unknown-linux-gnu)
  endif()
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DUMBO_BUILD_TESTS=OFF
    -DUMBO_BUILD_EXAMPLES=OFF
    -DUMBO_INSTALL_DEBUG=OFF
    "-DUMBO_RUST_TARGET=${umbo_rust_target}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/umbo)
vcpkg_fixup_pkgconfig()

# A port has one kind of library, the triplet's.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  file(GLOB other_kind "${CURRENT_PACKAGES_DIR}/lib/libumbo.so*")
else()
  set(other_kind "${CURRENT_PACKAGES_DIR}/lib/libumbo.a")
endif()
file(REMOVE ${other_kind})

if("tool" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES umbo AUTO_CLEAN)
else()
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/bin")
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/doc")

file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE"
  "${SOURCE_PATH}/THIRD-PARTY-LICENSES.txt")
