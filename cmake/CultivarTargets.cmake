# How Cultivar's own libraries, programs and tests are declared.

add_library(cultivar_flags INTERFACE)
target_compile_options(cultivar_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
# Errors with the compiler of the reference system (Debian 12); a newer one that knows more warnings still builds.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(warnings_are_errors ON)
else()
  set(warnings_are_errors OFF)
endif()
option(CULTIVAR_WARNINGS_ARE_ERRORS "Treat warnings as errors" ${warnings_are_errors})
if(CULTIVAR_WARNINGS_ARE_ERRORS)
  target_compile_options(cultivar_flags INTERFACE -Werror)
endif()

# A folder's include root: build/include/<folder>/<folder> -> the source folder, so that
# `#include "population/archive.hpp"` works only for those that link to cultivar_population.
function(cultivar_library folder)
  # Relative, because the source may lie below a folder that is itself called so.
  file(GLOB_RECURSE sources RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "(^|/)(programs|cli|libraries)/")
  set(view ${CMAKE_BINARY_DIR}/include/${folder})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${folder} SYMBOLIC)
  add_library(cultivar_${folder} STATIC ${sources})
  target_include_directories(cultivar_${folder} PUBLIC ${view})
  target_link_libraries(cultivar_${folder} PRIVATE cultivar_flags PUBLIC ${ARGN})
endfunction()

# The programs that commands need: everything but tests and benchmarks. The launcher builds this target.
add_custom_target(programs)

function(cultivar_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE cultivar_flags)
  # A program also finds the libraries that a bundle puts beside it.
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(NOT name MATCHES "^(bench|tests)-")
    add_dependencies(programs ${name})
  endif()
endfunction()
