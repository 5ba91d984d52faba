# What `cmake --install` puts down besides the binary: the library, its headers, a CMake package and a pkg-config
# file.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(dovetail PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION
                                          ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS dovetail EXPORT dovetail-targets COMPONENT library)

set(public_headers_unwanted)
if(NOT DOVETAIL_SQLITE)
  set(public_headers_unwanted PATTERN "sqlite*.h" EXCLUDE)
endif()
if(NOT DOVETAIL_POSTGRES)
  list(APPEND public_headers_unwanted PATTERN "postgres*.h" EXCLUDE PATTERN "pqxx*.h" EXCLUDE)
endif()
foreach(broker kafka rabbitmq nats redis http)
  string(TOUPPER ${broker} name)
  if(NOT DOVETAIL_${name})
    list(APPEND public_headers_unwanted PATTERN "${broker}.h" EXCLUDE)
  endif()
endforeach()
install(
  DIRECTORY ${PROJECT_SOURCE_DIR}/include/dovetail
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT library
  FILES_MATCHING
  PATTERN "*.h" ${public_headers_unwanted})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/dovetail)
install(EXPORT dovetail-targets NAMESPACE dovetail:: DESTINATION ${package_dir} COMPONENT library)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/dovetail-config.cmake.in
                              ${PROJECT_BINARY_DIR}/dovetail-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dovetail-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/dovetail-config.cmake
        ${PROJECT_BINARY_DIR}/dovetail-config-version.cmake
  DESTINATION ${package_dir}
  COMPONENT library)

# A static library leaves its own dependencies to the final link, a shared one does not.
get_target_property(library_type dovetail TYPE)
set(PC_REQUIRES_PRIVATE "tomlplusplus")
set(PC_REQUIRES "")
if(DOVETAIL_SQLITE)
  string(APPEND PC_REQUIRES_PRIVATE " sqlite3")
endif()
if(DOVETAIL_POSTGRES)
  string(APPEND PC_REQUIRES_PRIVATE " libpq")
endif()
if(DOVETAIL_HTTP OR DOVETAIL_NATS OR DOVETAIL_RABBITMQ OR DOVETAIL_REDIS)
  string(APPEND PC_REQUIRES_PRIVATE " openssl")
endif()
if(DOVETAIL_KAFKA)
  string(APPEND PC_REQUIRES_PRIVATE " rdkafka")
endif()
if(DOVETAIL_RABBITMQ)
  string(APPEND PC_REQUIRES_PRIVATE " librabbitmq")
endif()
if(DOVETAIL_REDIS)
  string(APPEND PC_REQUIRES_PRIVATE " hiredis")
endif()
if(DOVETAIL_HTTP)
  string(APPEND PC_REQUIRES_PRIVATE " libcurl")
endif()
if(library_type STREQUAL "STATIC_LIBRARY")
  set(PC_REQUIRES "${PC_REQUIRES_PRIVATE}")
  set(PC_REQUIRES_PRIVATE "")
endif()
# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" PC_PREFIX "${PC_PREFIX}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/dovetail.pc.in ${PROJECT_BINARY_DIR}/dovetail.pc @ONLY)
install(
  FILES ${PROJECT_BINARY_DIR}/dovetail.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT library)
