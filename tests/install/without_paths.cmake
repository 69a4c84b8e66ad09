# rustc under cmake/rustc_without_paths.sh writes no folder into what it compiles: two crates in two folders are equal. Without
# it they are not.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

file(REMOVE_RECURSE "${WORK_DIR}/without_paths")
# compile(<folder> <wrapper>...): sets OBJECT to what was compiled there.
function(compile folder)
  set(folder "${WORK_DIR}/without_paths/${folder}")
  file(MAKE_DIRECTORY "${folder}/src" "${folder}/target")
  file(COPY "${SOURCE_DIR}/tests/install/without_paths.rs" DESTINATION "${folder}/src")
  file(WRITE "${folder}/target/made.rs" "fn made(length: usize) {\n    assert!(length > 3, \"{length}\");\n}\n")
  step("compiling in ${folder}" "${CMAKE_COMMAND}" -E chdir "${folder}" "${CMAKE_COMMAND}" -E env
       "CARGO_MANIFEST_DIR=${folder}" CARGO_PKG_NAME=without_paths CARGO_PKG_VERSION=1.0.0 "OUT_DIR=${folder}/target"
       ${ARGN} "${RUSTC}" --edition 2024 --crate-type lib --emit obj -O -C debuginfo=line-tables-only
       "${folder}/src/without_paths.rs" -o "${folder}/object.o")
  set(OBJECT "${folder}/object.o" PARENT_SCOPE)
endfunction()

set(wrapper "${SOURCE_DIR}/cmake/rustc_without_paths.sh")
compile(one "${wrapper}")
set(one "${OBJECT}")
compile("another one" "${wrapper}")
step("comparing ${one} and ${OBJECT}" "${CMAKE_COMMAND}" -E compare_files "${one}" "${OBJECT}")
file(STRINGS "${one}" names REGEX "${WORK_DIR}")
if(names)
  message(FATAL_ERROR "${one} has paths of this machine: ${names}")
endif()
file(STRINGS "${one}" names REGEX "without_paths-1.0.0")
if(NOT names)
  message(FATAL_ERROR "${one} does not name the crate")
endif()
compile(plain)
file(STRINGS "${OBJECT}" names REGEX "without_paths/plain")
if(NOT names)
  message(FATAL_ERROR "${OBJECT} would have had no paths anyway")
endif()
