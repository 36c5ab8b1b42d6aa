# cmake --install: the program, the layers' libraries and headers, and a package for find_package(Tessera).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY TESSERA_LIBRARIES)
# Tessera::tessera is all layers; a program that wants one links Tessera::kernels, Tessera::nn, ...
add_library(tessera_all INTERFACE)
add_library(Tessera::tessera ALIAS tessera_all)
set_target_properties(tessera_all PROPERTIES EXPORT_NAME tessera)
target_link_libraries(tessera_all INTERFACE ${libraries})

install(TARGETS ${libraries} tessera_all EXPORT TesseraTargets)
if(TARGET tessera)
  install(TARGETS tessera)
endif()
get_property(folders GLOBAL PROPERTY TESSERA_LAYER_FOLDERS)
list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera
          FILES_MATCHING PATTERN "*.h" PATTERN "*_internal.h" EXCLUDE
          # What kernels share among themselves, and test kits.
          PATTERN "simd" EXCLUDE PATTERN "jit" EXCLUDE PATTERN "blocking.h" EXCLUDE PATTERN "kernel_cache.h" EXCLUDE
          PATTERN "reference.h" EXCLUDE PATTERN "dispatch.h" EXCLUDE PATTERN "simd_targets.h" EXCLUDE
          PATTERN "testing" EXCLUDE PATTERN "*_test_kit.h" EXCLUDE)
endforeach()
if(TESSERA_WITH_TORCH)
  install(FILES src/tessera/tessera.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera)
configure_package_config_file(cmake/TesseraConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/TesseraConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/TesseraConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/TesseraConfigVersion.cmake
              cmake/library_dependencies.cmake cmake/find_libtorch.cmake
        DESTINATION ${package_dir})
install(EXPORT TesseraTargets NAMESPACE Tessera:: DESTINATION ${package_dir})
