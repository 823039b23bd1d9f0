# Every library that Cultivar uses, as an imported target. All of them are packages of Debian 12 and Ubuntu 24.04.
find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(Boost REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(muparser REQUIRED IMPORTED_TARGET muparser)
pkg_check_modules(seccomp REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(ffi REQUIRED IMPORTED_TARGET libffi)
find_library(SQLITECPP_LIBRARY SQLiteCpp REQUIRED)

if(NOT TARGET yaml-cpp::yaml-cpp)  # yaml-cpp 0.7 exports the plain name only
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

# OpenCL is optional: without its headers (opencl-headers, ocl-icd-opencl-dev) the target opencl says what is missing.
find_package(OpenCL QUIET)
set(CULTIVAR_OPENCL ${OpenCL_FOUND})
