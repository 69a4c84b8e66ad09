# Installs into a fresh prefix, checks the tree, and moves it where the other tests look.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
step("install" "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${WORK_DIR}/first")

file(GLOB_RECURSE installed RELATIVE "${WORK_DIR}/first" "${WORK_DIR}/first/*")
foreach(pattern "include/umbo/umbo\\.h" "include/umbo/umbo\\.hpp" "lib[^ ]*/libumbo\\.so"
        "lib[^ ]*/libumbo\\.a" "lib[^ ]*/${SONAME}" "lib[^ ]*/libumbo\\.so\\.${VERSION}"
        "lib[^ ]*/cmake/umbo/umboConfig\\.cmake" "lib[^ ]*/pkgconfig/umbo\\.pc" "bin/umbo"
        "share/umbo/tsan\\.supp" "share/umbo/valgrind\\.supp"
        "share/umbo/adapters/mpi/umbo_mpi\\.[ch]"
        "share/[^ ]*LICENSE-MIT" "share/[^ ]*LICENSE-APACHE" "share/[^ ]*README\\.md"
        "share/[^ ]*docs/python/binding\\.py")
  set(found ${installed})
  list(FILTER found INCLUDE REGEX "^${pattern}$")
  if(NOT found)
    message(SEND_ERROR "the install tree has no ${pattern}; it has\n${installed}")
  endif()
endforeach()

# A package that names the place where it was built or first installed breaks when moved.
foreach(file IN LISTS installed)
  if(file MATCHES "\\.(cmake|pc|h|hpp)$")
    file(READ "${WORK_DIR}/first/${file}" text)
    foreach(place "${SOURCE_DIR}" "${BUILD_DIR}" "${WORK_DIR}")
      string(FIND "${text}" "${place}" position)
      if(NOT position EQUAL -1)
        message(SEND_ERROR "${file} names ${place}")
      endif()
    endforeach()
  endif()
endforeach()

# Pages lead to pages, pictures and programs that are installed, too.
foreach(file IN LISTS installed)
  if(file MATCHES "\\.md$")
    file(READ "${WORK_DIR}/first/${file}" text)
    # A list of CMake does not hold single brackets.
    string(REPLACE "](" "=>" text "${text}")
    string(REGEX REPLACE "[][;]" "" text "${text}")
    string(REGEX MATCHALL "=>[A-Za-z0-9_/-]*[./][A-Za-z0-9_./-]*[)#]" links "${text}")
    get_filename_component(folder "${WORK_DIR}/first/${file}" DIRECTORY)
    foreach(link IN LISTS links)
      string(REGEX REPLACE "^=>|[)#]$" "" link "${link}")
      if(NOT EXISTS "${folder}/${link}")
        message(SEND_ERROR "${file} leads to ${link}, which is not installed")
      endif()
    endforeach()
  endif()
endforeach()

file(RENAME "${WORK_DIR}/first" "${WORK_DIR}/moved")
step("the installed tool" "${WORK_DIR}/moved/bin/umbo" --version)
