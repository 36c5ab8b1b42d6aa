# tessera_add_library / _test / _bench / _fuzzer: one place for warnings, sanitizers and conventions.
add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE -Wall -Wextra $<$<BOOL:${TESSERA_WERROR}>:-Werror>)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

# tessera_add_library(base SOURCES a.cpp DEPENDS fmt::fmt PRIVATE_DEPENDS ...) makes target tessera_base.
function(tessera_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(tessera_${name} STATIC ${ARG_SOURCES})
  add_library(Tessera::${name} ALIAS tessera_${name})
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>)
  target_link_libraries(tessera_${name} PUBLIC ${ARG_DEPENDS}
                        PRIVATE $<BUILD_INTERFACE:tessera_options> ${ARG_PRIVATE_DEPENDS})
endfunction()

# tessera_add_test(igemm_test DEPENDS tessera_kernels [SOURCES x.cpp] [LABELS slow]); default source <name>.cpp.
function(tessera_add_test name)
  if(NOT TESSERA_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${name}.cpp)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} tessera_options GTest::gtest_main GTest::gmock)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
endfunction()

# tessera_add_bench(igemm_bench DEPENDS ...): a Google Benchmark program.
function(tessera_add_bench name)
  if(NOT TESSERA_BUILD_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  add_executable(${name} ${name}.cpp)
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} tessera_options benchmark::benchmark_main)
endfunction()
