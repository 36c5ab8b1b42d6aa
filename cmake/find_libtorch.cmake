# LibTorch from a Python wheel, as two imported targets of our own, torch::cpu and torch::c10: torch's CMake package
# demands a CUDA toolkit when pip brought a CUDA build, though libtorch_cpu and libc10 serve as they are.
# Input: TESSERA_TORCH_DIR, the folder with include/ and lib/; by default the wheel in .venv.
if(NOT TESSERA_TORCH_DIR OR (TESSERA_TORCH_DIR MATCHES "/\\.venv/" AND NOT EXISTS ${TESSERA_TORCH_DIR}))
  file(GLOB _candidates ${CMAKE_CURRENT_LIST_DIR}/../.venv/lib/python3*/site-packages/torch)
  list(LENGTH _candidates _count)
  if(NOT _count EQUAL 1)
    message(FATAL_ERROR "No LibTorch found. Run `make setup`, which puts the pinned wheel into .venv, or pass "
                        "-DTESSERA_TORCH_DIR=<folder with include/ and lib/libtorch_cpu.so>.")
  endif()
  file(REAL_PATH ${_candidates} _candidates)
  set(TESSERA_TORCH_DIR ${_candidates} CACHE PATH "Folder of LibTorch: include/ and lib/" FORCE)
endif()
foreach(_file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS ${TESSERA_TORCH_DIR}/${_file})
    message(FATAL_ERROR "TESSERA_TORCH_DIR is ${TESSERA_TORCH_DIR}, which lacks ${_file}.")
  endif()
endforeach()

# The wheel ships its own OpenMP runtime; link that one, so that a process has only one.
file(GLOB _gomp ${TESSERA_TORCH_DIR}/lib/libgomp*.so* ${TESSERA_TORCH_DIR}/../torch.libs/libgomp*.so*)
if(_gomp)
  list(GET _gomp 0 _gomp)
else()
  message(STATUS "LibTorch in ${TESSERA_TORCH_DIR} brings no libgomp: linking the compiler's")
  set(_gomp gomp)
endif()

# Installed programs find the same LibTorch. (CMAKE_INSTALL_RPATH_USE_LINK_PATH leaves out folders below the source
# tree, where .venv is.)
list(APPEND CMAKE_INSTALL_RPATH ${TESSERA_TORCH_DIR}/lib)

if(NOT TARGET torch::cpu)
  add_library(torch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(torch::c10 PROPERTIES IMPORTED_LOCATION ${TESSERA_TORCH_DIR}/lib/libc10.so)
  target_include_directories(torch::c10 SYSTEM INTERFACE
    ${TESSERA_TORCH_DIR}/include ${TESSERA_TORCH_DIR}/include/torch/csrc/api/include)
  # The wheel's include folder holds its own, newer fmt, whose compiled part no library offers.
  target_compile_definitions(torch::c10 INTERFACE FMT_HEADER_ONLY)
  add_library(torch::cpu SHARED IMPORTED GLOBAL)
  set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION ${TESSERA_TORCH_DIR}/lib/libtorch_cpu.so)
  target_link_libraries(torch::cpu INTERFACE torch::c10 ${_gomp})
endif()
