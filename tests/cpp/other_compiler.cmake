# COMPILER compiles SOURCE with OPTIONS, links it with the library and with REST, which has no such options, and runs it.
separate_arguments(OPTIONS)
file(REMOVE_RECURSE "${WORK_DIR}")
file(MAKE_DIRECTORY "${WORK_DIR}")
set(compile "${COMPILER}" -std=c++17 -Wall -Wextra -Werror "-I${INCLUDE}")
execute_process(COMMAND ${compile} ${OPTIONS} -c "${SOURCE}" -o "${WORK_DIR}/source.o" COMMAND_ERROR_IS_FATAL ANY)
get_filename_component(library_directory "${LIBRARY}" DIRECTORY)
execute_process(COMMAND ${compile} "${WORK_DIR}/source.o" ${REST} "${library_directory}/libumbo.so"
                        "-Wl,-rpath,${library_directory}" -lpthread -o "${WORK_DIR}/program" COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${WORK_DIR}/program" WORKING_DIRECTORY "${WORK_DIR}" COMMAND_ERROR_IS_FATAL ANY)
