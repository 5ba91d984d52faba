# dovetail_server_test(name SERVERS postgres [pgbouncer] ARGUMENTS_OF_dovetail_test...): a test against real servers.
# CTest starts each server once, before the first test that needs it, and stops it after the last. By hand:
#   tests/servers/servers.py --state build/release/servers start postgres && build/release/.../name
function(dovetail_server_test name)
  if(NOT DOVETAIL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SERVERS;SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  dovetail_test(
    ${name}
    SOURCES ${ARG_SOURCES} ${PROJECT_SOURCE_DIR}/tests/servers/main.cc ${PROJECT_SOURCE_DIR}/tests/servers/servers.cc
            ${PROJECT_SOURCE_DIR}/tests/servers/tcp_proxy.cc
    LIBS ${ARG_LIBS} Threads::Threads
    LABELS ${ARG_LABELS} server
    TIMEOUT ${ARG_TIMEOUT})
  list(JOIN ARG_SERVERS " " needed)
  target_compile_definitions(
    ${name} PRIVATE DOVETAIL_SERVERS_NEEDED="${needed}"
                    DOVETAIL_SERVERS="${CMAKE_BINARY_DIR}/servers"
                    DOVETAIL_SERVERS_SCRIPT="${PROJECT_SOURCE_DIR}/tests/servers/servers.py")
  list(TRANSFORM ARG_SERVERS PREPEND server_ OUTPUT_VARIABLE fixtures)
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED "${fixtures}")
endfunction()
