# The install tree: libraries, headers, CMake package, pkg-config file, tool,
# licences and documents. Nothing in it names the place where it was built.

set(UMBO_PACKAGE_DIRECTORY "${CMAKE_INSTALL_LIBDIR}/cmake/umbo")
set(UMBO_INSTALLED_LIBRARIES "${CMAKE_INSTALL_LIBDIR}")
set(UMBO_INSTALLED_PROGRAMS "${CMAKE_INSTALL_BINDIR}")
set(UMBO_INSTALLED_HEADERS "${CMAKE_INSTALL_INCLUDEDIR}")
set(UMBO_INSTALLED_ADAPTERS "${CMAKE_INSTALL_DATADIR}/umbo/adapters")
configure_package_config_file(
  cmake/umboConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/installed/umboConfig.cmake"
  INSTALL_DESTINATION "${UMBO_PACKAGE_DIRECTORY}"
  PATH_VARS UMBO_INSTALLED_LIBRARIES UMBO_INSTALLED_PROGRAMS UMBO_INSTALLED_HEADERS UMBO_INSTALLED_ADAPTERS)
# While the major version is 0, a new minor version may break what a program was built with.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/installed/umboConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)

# What find_package(umbo) meets inside this build: the targets are already there.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/package/umboConfig.cmake"
     "set(umbo_shared_FOUND TRUE)\nset(umbo_static_FOUND TRUE)\n"
     "include([[${CMAKE_CURRENT_SOURCE_DIR}/cmake/UmboMpi.cmake]])\n"
     "umbo_define_mpi([[${CMAKE_CURRENT_SOURCE_DIR}/adapters/mpi]])\n")
file(COPY "${CMAKE_CURRENT_BINARY_DIR}/installed/umboConfigVersion.cmake"
     DESTINATION "${CMAKE_CURRENT_BINARY_DIR}/package")

if(NOT UMBO_INSTALL)
  return()
endif()

# pkg-config finds the prefix from the place of the file, unless a path was given absolute.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(UMBO_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
  set(UMBO_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
else()
  file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(UMBO_PC_PREFIX "\${pcfiledir}/${up}")
  set(UMBO_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(UMBO_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
else()
  set(UMBO_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
list(JOIN UMBO_NATIVE_STATIC_LIBRARIES " " UMBO_PC_LIBS_PRIVATE)
configure_file(cmake/umbo.pc.in "${CMAKE_CURRENT_BINARY_DIR}/installed/umbo.pc" @ONLY)

# Each file belongs to a component, of which a package of a distribution may be made.
if(WIN32)
  # Windows looks for libraries beside programs.
  install(PROGRAMS "${UMBO_SHARED_LIBRARY}" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
  install(FILES "${UMBO_IMPORT_LIBRARY}" "${UMBO_STATIC_LIBRARY}"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
else()
  install(PROGRAMS "${UMBO_SHARED_LIBRARY}" DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
  install(FILES "${library_directory}/${UMBO_SONAME}"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime)
  install(FILES "${library_directory}/libumbo.so" "${UMBO_STATIC_LIBRARY}"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
endif()
if(UMBO_BUILD_TOOL)
  install(PROGRAMS "${UMBO_TOOL}" DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT tool)
endif()
if(UMBO_STRIP)
  if(NOT CMAKE_OBJCOPY)
    message(FATAL_ERROR "umbo: UMBO_STRIP needs objcopy, of the binutils, which was not found")
  endif()
  # What is in the build tree keeps its debug information; what was just installed loses it.
  set(stripped_components runtime development)
  if(UMBO_BUILD_TOOL)
    list(APPEND stripped_components tool)
  endif()
  if(UMBO_INSTALL_DEBUG)
    list(APPEND stripped_components debug)
  endif()
  foreach(UMBO_STRIP_COMPONENT IN LISTS stripped_components)
    set(script "${CMAKE_CURRENT_BINARY_DIR}/installed/Strip-${UMBO_STRIP_COMPONENT}.cmake")
    configure_file(cmake/Strip.cmake.in "${script}" @ONLY)
    install(SCRIPT "${script}" COMPONENT ${UMBO_STRIP_COMPONENT})
  endforeach()
endif()
install(DIRECTORY include/umbo DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/installed/umboConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/installed/umboConfigVersion.cmake"
              cmake/UmboTargets.cmake cmake/UmboMpi.cmake
        DESTINATION "${UMBO_PACKAGE_DIRECTORY}" COMPONENT development)
# For programs that are tested with valgrind or ThreadSanitizer.
install(FILES tests/valgrind.supp tests/tsan.supp DESTINATION "${CMAKE_INSTALL_DATADIR}/umbo" COMPONENT development)
install(DIRECTORY adapters/mpi DESTINATION "${UMBO_INSTALLED_ADAPTERS}" COMPONENT development)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/installed/umbo.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)
# Licences are where the code is.
install(FILES LICENSE-MIT LICENSE-APACHE THIRD-PARTY-LICENSES.txt
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)
# With the pages that these lead to: an installed link is not dead.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation)
install(FILES tests/README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}/tests" COMPONENT documentation)
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "*.py")
# The examples are a project of their own: with them, an installed package can be tried at once.
if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/c_examples/CMakeLists.txt")
  install(DIRECTORY c_examples DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documentation)
endif()
if(UMBO_IS_TOP_LEVEL)
  include(cmake/Packages.cmake)
endif()
