# tessera_add_library / _test / _bench / _fuzzer / _executable: one place for warnings, sanitizers and conventions.
#
# Every one takes
#   SOURCES a.cpp ...          default for test, bench and fuzzer: <name>.cpp
#   DEPENDS target ...         layers and libraries (public for a library)
#   TORCH                      links LibTorch, precompiles tessera/quant/torch.h and compiles a target's sources together
#                              (unity build): what they share of LibTorch's templates is instantiated once
#   ATEN                       links LibTorch, no precompiled header (a TU that includes a few ATen headers: 4 s)
# and tessera_add_library also PRIVATE_DEPENDS. Below quant no target says either, so a torch header does not compile
# there.

add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE
  -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>
  # -fPIC for executables too (CMake would say -fPIE), so that libraries and tests can share one precompiled header.
  -fPIC
  # The same bits on every CPU: no fused multiply-add but where it is written.
  -ffp-contract=off)
set(TESSERA_TEST_ENVIRONMENT "")
if(TESSERA_SANITIZE)
  # Not vptr: LibTorch hides type information that it would compare.
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-sanitize=vptr
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
  set(TESSERA_TEST_ENVIRONMENT UBSAN_OPTIONS=print_stacktrace=1
      TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp)
endif()
if(TESSERA_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TESSERA_BUILD_FUZZERS needs clang, not ${CMAKE_CXX_COMPILER_ID}; see the preset fuzz.")
  endif()
  target_compile_options(tessera_options INTERFACE -fsanitize=fuzzer-no-link)  # coverage of the code under test
  target_link_options(tessera_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# One precompiled header for all targets that say TORCH. Sources still include what they use, so that
# -DTESSERA_TORCH_PCH=OFF, which also compiles them one by one, builds the same.
if(TESSERA_WITH_TORCH AND TESSERA_TORCH_PCH)
  file(CONFIGURE OUTPUT torch_pch.cpp CONTENT "// Carries the precompiled header.\n")
  add_library(tessera_torch_pch OBJECT ${CMAKE_CURRENT_BINARY_DIR}/torch_pch.cpp)
  target_link_libraries(tessera_torch_pch PRIVATE tessera_options torch::cpu)
  target_include_directories(tessera_torch_pch PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_precompile_headers(tessera_torch_pch PRIVATE <tessera/quant/torch.h>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tessera_options INTERFACE -fpch-preprocess)  # ccache needs it
  else()
    # No time stamp in the header, so that ccache may hand out an old one.
    target_compile_options(tessera_options INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

# tessera_compile_together(target): one compilation for up to six sources; for targets whose headers cost more than
# their code (JSON, CLI11, LibTorch). Off with the precompiled header, so that one build checks every source alone.
function(tessera_compile_together target)
  if(TESSERA_TORCH_PCH)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

# tessera_configure_target(target [TORCH | ATEN]): options and LibTorch; the functions below call it.
function(tessera_configure_target target)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:tessera_options>)
  if(NOT ARGN)
    return()
  elseif(NOT ARGN MATCHES "^(TORCH|ATEN)$")
    message(FATAL_ERROR "${target}: give TORCH or ATEN, not ${ARGN}.")
  elseif(NOT TESSERA_WITH_TORCH)
    message(FATAL_ERROR "${target} needs LibTorch, but TESSERA_WITH_TORCH is OFF.")
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_link_libraries(${target} PRIVATE torch::cpu)
  else()
    target_link_libraries(${target} PUBLIC torch::cpu)
  endif()
  if(ARGN STREQUAL "TORCH" AND TESSERA_TORCH_PCH)
    target_precompile_headers(${target} REUSE_FROM tessera_torch_pch)
    tessera_compile_together(${target})
  endif()
endfunction()

# Give the one flag of `torch` and `aten` that is set, for the next call.
function(tessera_torch_flag out torch aten)
  set(flag "")
  if(torch)
    set(flag TORCH)
  elseif(aten)
    set(flag ATEN)
  endif()
  set(${out} ${flag} PARENT_SCOPE)
endfunction()

# tessera_add_library(base SOURCES a.cpp DEPENDS fmt::fmt PRIVATE_DEPENDS ... [TORCH | ATEN]) makes target tessera_base,
# which `find_package(Tessera)` offers as Tessera::base.
function(tessera_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH;ATEN" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS")
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(Tessera::${name} ALIAS tessera_${name})
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                    $<INSTALL_INTERFACE:include>)
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_link_libraries(tessera_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  tessera_torch_flag(torch ${ARG_TORCH} ${ARG_ATEN})
  tessera_configure_target(tessera_${name} ${torch})
  set_property(GLOBAL APPEND PROPERTY TESSERA_LIBRARIES tessera_${name})
  set_property(GLOBAL APPEND PROPERTY TESSERA_LAYER_FOLDERS ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()

# tessera_add_executable(tessera SOURCES main.cpp DEPENDS ... [TORCH | ATEN])
function(tessera_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH;ATEN" "" "SOURCES;DEPENDS")
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${name}.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  tessera_torch_flag(torch ${ARG_TORCH} ${ARG_ATEN})
  tessera_configure_target(${name} ${torch})
endfunction()

# tessera_add_test(igemm_test DEPENDS tessera_kernels [SOURCES x.cpp] [LABELS slow] [TIMEOUT s] [TORCH | ATEN])
function(tessera_add_test name)
  if(NOT TESSERA_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH;ATEN" "TIMEOUT" "SOURCES;DEPENDS;LABELS")
  tessera_torch_flag(torch ${ARG_TORCH} ${ARG_ATEN})
  tessera_add_executable(${name} ${torch} SOURCES ${ARG_SOURCES}
                         DEPENDS ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" ENVIRONMENT "${TESSERA_TEST_ENVIRONMENT}")
  if(ARG_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  endif()
endfunction()

# tessera_add_bench(igemm_bench DEPENDS ... [TORCH | ATEN]): a Google Benchmark program.
function(tessera_add_bench name)
  if(NOT TESSERA_BUILD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH;ATEN" "" "SOURCES;DEPENDS")
  tessera_torch_flag(torch ${ARG_TORCH} ${ARG_ATEN})
  tessera_add_executable(${name} ${torch} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS} benchmark::benchmark_main)
  set_property(GLOBAL APPEND PROPERTY TESSERA_BENCHMARKS ${name})
endfunction()

# tessera_add_fuzzer(safetensors_fuzz DEPENDS ...): a libFuzzer program; clang only.
function(tessera_add_fuzzer name)
  if(NOT TESSERA_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "SOURCES;DEPENDS")
  tessera_add_executable(${name} SOURCES ${ARG_SOURCES} DEPENDS ${ARG_DEPENDS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
