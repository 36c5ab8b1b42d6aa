# Every outside library, named once: those of the libraries in library_dependencies.cmake, those of the program, the
# tests and the benchmarks here.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Xbyak is headers only and x86 only.
set(TESSERA_HAVE_JIT OFF)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT TESSERA_REFERENCE_ONLY)
  set(TESSERA_HAVE_JIT ON)
endif()
include(library_dependencies)

if(TESSERA_WITH_TORCH)
  find_package(CLI11 2.1 REQUIRED)
endif()
if(TESSERA_BUILD_TESTS)
  enable_testing()
  find_package(GTest 1.12 REQUIRED)
endif()
if(TESSERA_BUILD_BENCHMARKS)
  find_package(benchmark 1.7 REQUIRED)
endif()
