# How everything here is compiled. Warnings belong to the target dovetail_flags, which only our own targets link;
# optimisation, hardening and sanitizers hold for the whole build, because mixing them breaks at run time.

find_program(CCACHE ccache)
if(CCACHE AND (NOT CMAKE_CXX_COMPILER_LAUNCHER OR CMAKE_CXX_COMPILER_LAUNCHER MATCHES "^[^;]*ccache$"))
  # The cache works with precompiled headers only when it is told that their macros count as part of them. Paths below
  # the base count as relative, so that all folders with these sources share what is in it.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
                                  ${CCACHE})
endif()

add_library(dovetail_flags INTERFACE)
target_compile_options(dovetail_flags INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlap in `"text" + std::string` that is not there (its bug 105651).
  target_compile_options(dovetail_flags INTERFACE -Wno-restrict)
endif()
if(DOVETAIL_WERROR)
  target_compile_options(dovetail_flags INTERFACE -Werror)
endif()

# An assertion is a bug of ours and must stop the process in production too, so no build type defines NDEBUG.
foreach(build_type RELEASE RELWITHDEBINFO MINSIZEREL)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_${build_type} "${CMAKE_CXX_FLAGS_${build_type}}")
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_${build_type} "${CMAKE_CXX_FLAGS_${build_type}}")
endforeach()

# Assertions name their file; where the sources lay on the build machine is nobody's business.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)

# Position-independent, so that a static libdovetail can be linked into programs and shared libraries alike.
include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# A sanitizer replaces what hardening does, and _FORTIFY_SOURCE hides calls from it: one or the other.
if(DOVETAIL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(DOVETAIL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(DOVETAIL_SANITIZE STREQUAL "fuzz")
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(DOVETAIL_SANITIZE)
  message(FATAL_ERROR "DOVETAIL_SANITIZE is '${DOVETAIL_SANITIZE}'; allowed: empty, address, thread, "
                      "fuzz (with clang).")
elseif(DOVETAIL_HARDENING AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # Some systems predefine _FORTIFY_SOURCE; redefining it without -U is a warning.
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE
                      -D_FORTIFY_SOURCE=3 -D_GLIBCXX_ASSERTIONS)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
