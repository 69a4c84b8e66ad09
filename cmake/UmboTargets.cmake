# Defines umbo::shared, umbo::static and umbo::umbo for libraries that lie at
# given places. Both the build of Umbo itself and an installed package include
# this file, so that the targets are the same in either.
function(umbo_define_targets)
  cmake_parse_arguments(arg "" "INCLUDE_DIRECTORY;SHARED_LIBRARY;IMPORT_LIBRARY;STATIC_LIBRARY;SONAME"
                        "NATIVE_LIBRARIES" ${ARGN})

  if(arg_SHARED_LIBRARY AND NOT TARGET umbo::shared)
    add_library(umbo::shared SHARED IMPORTED GLOBAL)
    set_target_properties(umbo::shared PROPERTIES
      IMPORTED_LOCATION "${arg_SHARED_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${arg_INCLUDE_DIRECTORY}")
    if(arg_IMPORT_LIBRARY)
      set_target_properties(umbo::shared PROPERTIES IMPORTED_IMPLIB "${arg_IMPORT_LIBRARY}")
    else()
      set_target_properties(umbo::shared PROPERTIES IMPORTED_SONAME "${arg_SONAME}")
    endif()
  endif()

  if(arg_STATIC_LIBRARY AND NOT TARGET umbo::static)
    add_library(umbo::static STATIC IMPORTED GLOBAL)
    set_target_properties(umbo::static PROPERTIES
      IMPORTED_LOCATION "${arg_STATIC_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${arg_INCLUDE_DIRECTORY}"
      INTERFACE_LINK_LIBRARIES "${arg_NATIVE_LIBRARIES}")
    if(WIN32)
      # The headers would ask for functions of a DLL.
      set_property(TARGET umbo::static PROPERTY INTERFACE_COMPILE_DEFINITIONS UMBO_STATIC)
    endif()
  endif()

  if(NOT TARGET umbo::umbo)
    add_library(umbo::umbo INTERFACE IMPORTED GLOBAL)
    if(TARGET umbo::shared AND (NOT DEFINED BUILD_SHARED_LIBS OR BUILD_SHARED_LIBS
                                OR NOT TARGET umbo::static))
      set_property(TARGET umbo::umbo PROPERTY INTERFACE_LINK_LIBRARIES umbo::shared)
    else()
      set_property(TARGET umbo::umbo PROPERTY INTERFACE_LINK_LIBRARIES umbo::static)
    endif()
  endif()
endfunction()
