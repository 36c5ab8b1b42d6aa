# The libraries that Tessera's own are made of, with the oldest versions that serve. Read by the build and, installed
# beside TesseraConfig.cmake, by find_package(Tessera). Debian 12 ships all but LibTorch.
# Input: TESSERA_HAVE_JIT, TESSERA_WITH_TORCH.
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET GLOBAL libhwy>=1.0)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET GLOBAL libxxhash>=0.8)
if(TESSERA_HAVE_JIT)
  find_package(xbyak 6 REQUIRED)
endif()
if(TESSERA_WITH_TORCH)
  include(${CMAKE_CURRENT_LIST_DIR}/find_libtorch.cmake)
endif()
