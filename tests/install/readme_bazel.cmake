# The documents' WORKSPACE and BUILD as they are printed except for the prefix, with README's first program beside them: built by
# Bazel and run. Bazel loads its rules for C++ and Java over the network, and those for C++ only to call the ones that it has: here
# are files in their place.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")
include("${SOURCE_DIR}/tests/readme/block.cmake")

set(folder "${WORK_DIR}-readme/bazel")
set(started "${BAZEL}" --batch "--output_user_root=${WORK_DIR}-readme/bazel-output")
file(REMOVE_RECURSE "${folder}")
file(MAKE_DIRECTORY "${folder}")
take_block(first.c "${folder}/first.c")
take_block(bazel/BUILD "${folder}/BUILD")
take_block(bazel/WORKSPACE "${folder}/WORKSPACE")
file(READ "${folder}/WORKSPACE" text)
file(GLOB_RECURSE description RELATIVE "${PREFIX}" "${PREFIX}/umbo.pc")
get_filename_component(directory "${description}" DIRECTORY)
get_filename_component(libraries "${directory}" DIRECTORY)
string(REPLACE "/where/you/want/it" "${PREFIX}" text "${text}")
string(REPLACE "\"lib/" "\"${libraries}/" text "${text}")
file(WRITE "${folder}/WORKSPACE" "${text}")

# rules(<language> <rule>...): a repository whose rules are Bazel's own.
function(rules language)
  set(repository "${folder}/rules_${language}")
  file(WRITE "${repository}/WORKSPACE" "")
  file(WRITE "${repository}/${language}/BUILD" "")
  foreach(rule IN LISTS ARGN)
    file(APPEND "${repository}/${language}/defs.bzl" "${rule} = native.${rule}\n")
  endforeach()
  set(overrides ${overrides} "--override_repository=rules_${language}=${repository}" PARENT_SCOPE)
endfunction()
set(overrides "")
rules(cc cc_binary cc_import cc_library cc_test cc_toolchain cc_toolchain_suite)
rules(java java_binary java_import java_library java_package_configuration java_runtime java_toolchain)

step("bazel build" "${CMAKE_COMMAND}" -E chdir "${folder}" "${CMAKE_COMMAND}" -E env "CC=${C_COMPILER}"
     ${started} build ${overrides} //:first)
expect_output(bazel "${folder}" "${folder}/bazel-bin/first")
step("removing what bazel wrote" "${CMAKE_COMMAND}" -E chdir "${folder}" ${started} clean --expunge)
