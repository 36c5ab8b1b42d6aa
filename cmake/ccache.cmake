# Compile through ccache where it exists. The sloppiness settings let it cache sources that use a precompiled header;
# they are set here so that no user's ccache.conf has to.
option(TESSERA_CCACHE "Compile through ccache when it is installed" ON)
if(TESSERA_CCACHE AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "(^|/)ccache$"))
  find_program(TESSERA_CCACHE_PROGRAM ccache)
  mark_as_advanced(TESSERA_CCACHE_PROGRAM)
  if(TESSERA_CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${TESSERA_CCACHE_PROGRAM})
  endif()
endif()
