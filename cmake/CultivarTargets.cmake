# How Cultivar's own libraries, programs and tests are declared.

add_library(cultivar_flags INTERFACE)
target_compile_options(cultivar_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
# Warnings are errors with the compiler of the reference system (Debian 12); newer compilers with more warnings still build.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(warnings_are_errors ON)
else()
  set(warnings_are_errors OFF)
endif()
option(CULTIVAR_WARNINGS_ARE_ERRORS "Treat warnings as errors" ${warnings_are_errors})
if(CULTIVAR_WARNINGS_ARE_ERRORS)
  target_compile_options(cultivar_flags INTERFACE -Werror)
endif()

# For most code, which is text, SQL and processes: as fast as with -O2, and compiled in less than two thirds of the time.
# Folders and programs that compute are compiled with the -O2 of the preset.
add_library(cultivar_light_optimization INTERFACE)
target_compile_options(cultivar_light_optimization INTERFACE $<$<CONFIG:RelWithDebInfo>:-Og>)
option(CULTIVAR_UNITY "Compile each folder's sources as one" ON)
# The compiler collects its garbage later: a tenth faster, for a tenth more memory. Not file by file, because clang-tidy reads
# the commands of such a build and rejects these.
if(CULTIVAR_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(cultivar_flags INTERFACE
    "SHELL:--param ggc-min-expand=100 --param ggc-min-heapsize=400000")
endif()

# Unity builds: the sources of a folder are compiled as one, so that the headers and the templates they share are
# compiled once for all. It makes the first build several times faster; `dev` compiles file by file, and finds what a unity
# build hides: a missing include, a shadowed name.
add_library(cultivar_unity_flags INTERFACE)
target_compile_options(cultivar_unity_flags INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
function(cultivar_unity target)
  if(NOT CULTIVAR_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "unity_${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  target_link_libraries(${target} PRIVATE cultivar_unity_flags)
endfunction()

# The headers that most folders include, compiled once for all of them. Only with unity builds: without, a missing include
# must be an error.
function(cultivar_precompiled_headers target)
  if(NOT CULTIVAR_UNITY OR NOT TARGET fmt::fmt OR NOT TARGET nlohmann_json::nlohmann_json)
    return()
  endif()
  get_property(owner GLOBAL PROPERTY cultivar_precompiled_headers)
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  else()
    target_precompile_headers(${target} PRIVATE <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <algorithm> <array> <chrono>
      <cmath> <filesystem> <functional> <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <vector>)
    set_property(GLOBAL PROPERTY cultivar_precompiled_headers ${target})
  endif()
endfunction()

# Lets a target include the headers of these folders, and of no other folder of the tree, by
# build/include/<target>/<folder>/<header> -> the header.
function(cultivar_view target scope)
  set(view ${CMAKE_BINARY_DIR}/include/${target})
  file(REMOVE_RECURSE ${view})
  foreach(folder ${ARGN})
    file(GLOB headers RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
      ${CMAKE_SOURCE_DIR}/${folder}/*.hpp ${CMAKE_SOURCE_DIR}/${folder}/*.h)
    file(MAKE_DIRECTORY ${view}/${folder})
    foreach(header ${headers})
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${header} ${view}/${header} SYMBOLIC)
    endforeach()
  endforeach()
  target_include_directories(${target} ${scope} ${view})
endfunction()

# A static library for each folder:
#
#   cultivar_library(evaluators/task NEEDS evaluators/dtype evaluators/expression LIBRARIES TBB::tbb)
#
# It is compiled against the headers of its own folder and of the folders that it needs, directly or through others. It may
# need only folders that are declared before it, so folders cannot depend on each other in a cycle. FOLDERS makes one library
# of several folders that still do. WITHOUT names sources that are not part of it. NUMERICAL: it computes, or handles
# each individual of a record when a search is resumed.
function(cultivar_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NUMERICAL" "" "FOLDERS;NEEDS;LIBRARIES;WITHOUT")
  if(NOT arg_FOLDERS)
    set(arg_FOLDERS ${name})
  endif()
  string(REPLACE "/" "_" target cultivar_${name})
  set(needed "")
  foreach(other ${arg_NEEDS})
    string(REPLACE "/" "_" other_target cultivar_${other})
    if(NOT TARGET ${other_target})
      message(FATAL_ERROR "${name} needs ${other}, which is not declared before it. Folders must not depend on each other "
        "in a cycle: move what both need into a folder that both may need.")
    endif()
    list(APPEND needed ${other_target})
  endforeach()
  set(sources "")
  foreach(folder ${arg_FOLDERS})
    file(GLOB found RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(arg_WITHOUT)
    list(REMOVE_ITEM sources ${arg_WITHOUT})
  endif()
  add_library(${target} STATIC ${sources})
  cultivar_view(${target} PUBLIC ${arg_FOLDERS})
  target_link_libraries(${target} PRIVATE cultivar_flags PUBLIC ${needed} ${arg_LIBRARIES})
  cultivar_unity(${target} ${sources})
  # g++ 12 crashes when precompiled headers have another optimization level than the source.
  if(NOT arg_NUMERICAL)
    cultivar_precompiled_headers(${target})
    target_link_libraries(${target} PRIVATE cultivar_light_optimization)
  endif()
  string(REGEX REPLACE "/.*" "" top ${name})
  set_property(GLOBAL APPEND PROPERTY cultivar_libraries_of_${top} ${target})
endfunction()

# All libraries of a top-level folder, and the others named, as one: for programs and tests.
function(cultivar_all_of top)
  get_property(libraries GLOBAL PROPERTY cultivar_libraries_of_${top})
  add_library(cultivar_${top} INTERFACE)
  target_link_libraries(cultivar_${top} INTERFACE ${libraries} ${ARGN})
endfunction()

# The programs that commands need: everything except tests and benchmarks. The launcher builds this target. They are
# installed: `cultivar` in bin, the programs that it starts in libexec/cultivar.
add_custom_target(programs)

function(cultivar_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE cultivar_flags)
  # A program also searches for libraries that a bundle puts beside it.
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin BUILD_RPATH "$ORIGIN/../lib")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  if(NOT name MATCHES "^(bench|tests)-")
    add_dependencies(programs ${name})
    if(name STREQUAL cultivar)
      install(TARGETS ${name} RUNTIME DESTINATION bin)
    else()
      install(TARGETS ${name} RUNTIME DESTINATION libexec/cultivar)
    endif()
  endif()
endfunction()
