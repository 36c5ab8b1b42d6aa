# LibTorch from a Python wheel, as two imported targets of our own: torch's CMake package demands a CUDA toolkit
# when pip brought a CUDA build, though libtorch_cpu and libc10 serve as they are.
if(NOT TESSERA_TORCH_DIR)
  file(GLOB _candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(LENGTH _candidates _count)
  if(NOT _count EQUAL 1)
    message(FATAL_ERROR "No LibTorch found. Run `make setup`, which puts the pinned wheel into .venv, or pass "
                        "-DTESSERA_TORCH_DIR=<folder with include/ and lib/libtorch_cpu.so>.")
  endif()
  set(TESSERA_TORCH_DIR ${_candidates} CACHE PATH "Folder of LibTorch: include/ and lib/" FORCE)
endif()
foreach(_file include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
  if(NOT EXISTS ${TESSERA_TORCH_DIR}/${_file})
    message(FATAL_ERROR "TESSERA_TORCH_DIR is ${TESSERA_TORCH_DIR}, which lacks ${_file}.")
  endif()
endforeach()

add_library(torch::c10 SHARED IMPORTED GLOBAL)
set_target_properties(torch::c10 PROPERTIES
  IMPORTED_LOCATION ${TESSERA_TORCH_DIR}/lib/libc10.so
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
    "${TESSERA_TORCH_DIR}/include;${TESSERA_TORCH_DIR}/include/torch/csrc/api/include")
target_include_directories(torch::c10 SYSTEM INTERFACE
  ${TESSERA_TORCH_DIR}/include ${TESSERA_TORCH_DIR}/include/torch/csrc/api/include)
add_library(torch::cpu SHARED IMPORTED GLOBAL)
set_target_properties(torch::cpu PROPERTIES IMPORTED_LOCATION ${TESSERA_TORCH_DIR}/lib/libtorch_cpu.so)
# The wheel ships its own OpenMP runtime (libgomp's soname); link that one, so that a process has only one.
file(GLOB _gomp ${TESSERA_TORCH_DIR}/lib/libgomp*.so* ${TESSERA_TORCH_DIR}/../torch.libs/libgomp*.so*)
list(GET _gomp 0 _gomp)
target_link_libraries(torch::cpu INTERFACE torch::c10 ${_gomp})
