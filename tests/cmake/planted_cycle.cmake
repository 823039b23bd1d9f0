# The build rejects folders that depend on each other in a cycle: CMake does not configure a declared cycle, and the compiler
# finds no header of a folder that is not declared as needed. A tree without a cycle builds.
#   cmake -D SOURCE=<tree> -D WORK=<folder> -P planted_circle.cmake
function(tree folder libraries base_text)
  file(REMOVE_RECURSE ${WORK}/${folder})
  file(WRITE ${WORK}/${folder}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(tree CXX)\n"
    "set(CMAKE_CXX_STANDARD 20)\ninclude(${SOURCE}/cmake/CultivarTargets.cmake)\n${libraries}cultivar_all_of(top)\n")
  file(WRITE ${WORK}/${folder}/top/base/base.hpp "int one();\n")
  file(WRITE ${WORK}/${folder}/top/base/base.cpp "${base_text}int one() { return 1; }\n")
  file(WRITE ${WORK}/${folder}/top/user/user.hpp "int two();\n")
  file(WRITE ${WORK}/${folder}/top/user/user.cpp
    "#include \"top/base/base.hpp\"\nint two() { return one() + one(); }\n")
endfunction()

function(outcome variable)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  set(${variable} ${result} PARENT_SCOPE)
  set(said "${out}" PARENT_SCOPE)
endfunction()

macro(expect what)
  if(NOT (${ARGN}))
    message(FATAL_ERROR "${what}:\n${said}")
  endif()
endmacro()

set(base "cultivar_library(top/base)\n")
set(user "cultivar_library(top/user NEEDS top/base)\n")
set(configure ${CMAKE_COMMAND} -G Ninja)

tree(honest "${base}${user}" "")
outcome(result ${configure} -S ${WORK}/honest -B ${WORK}/honest/build)
expect("a tree without a cycle is not configured" result EQUAL 0)
outcome(result ${CMAKE_COMMAND} --build ${WORK}/honest/build)
expect("a tree without a cycle is not built" result EQUAL 0)

tree(declared "cultivar_library(top/base NEEDS top/user)\n${user}" "")
outcome(result ${configure} -S ${WORK}/declared -B ${WORK}/declared/build)
expect("a declared cycle is configured" NOT result EQUAL 0 AND said MATCHES "top/user, which is not declared")

tree(included "${base}${user}" "#include \"top/user/user.hpp\"\n")
outcome(result ${configure} -S ${WORK}/included -B ${WORK}/included/build)
expect("the tree with the include is not configured" result EQUAL 0)
outcome(result ${CMAKE_COMMAND} --build ${WORK}/included/build)
expect("a cycle of includes is compiled" NOT result EQUAL 0 AND said MATCHES "user.hpp: No such file")
