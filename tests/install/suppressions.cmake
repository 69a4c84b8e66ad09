# A program that trains on two replicas, with the installed suppressions: ThreadSanitizer and valgrind have nothing to say of
# it. Of a race of the program's own ThreadSanitizer does.
include("${CMAKE_CURRENT_LIST_DIR}/step.cmake")

set(work "${WORK_DIR}-suppressions")
file(MAKE_DIRECTORY "${work}")
file(GLOB_RECURSE library "${PREFIX}/libumbo.so")
get_filename_component(libraries "${library}" DIRECTORY)
set(compile "${C_COMPILER}" -std=gnu11 -g -O1 "${SOURCE}" "-I${PREFIX}/include" "-L${libraries}" -lumbo -lpthread
    "-Wl,-rpath,${libraries}")
set(share "${PREFIX}/share/umbo")

step("compile" ${compile} -o "${work}/plain")
if(VALGRIND)
  step("valgrind" "${VALGRIND}" --quiet --error-exitcode=1 "--suppressions=${share}/valgrind.supp" --leak-check=full
       --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite,possible "${work}/plain")
endif()

execute_process(COMMAND ${compile} -fsanitize=thread -o "${work}/sanitized" RESULT_VARIABLE status ERROR_QUIET)
if(NOT status EQUAL 0)
  message(STATUS "the compiler has no ThreadSanitizer")
  return()
endif()
set(ENV{TSAN_OPTIONS} "suppressions=${share}/tsan.supp")
step("ThreadSanitizer" "${work}/sanitized")
execute_process(COMMAND "${work}/sanitized" race RESULT_VARIABLE status ERROR_VARIABLE said)
if(status EQUAL 0 OR NOT said MATCHES "data race")
  message(FATAL_ERROR "a race of the program's own is not reported (${status}):\n${said}")
endif()
