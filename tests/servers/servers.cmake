# What such tests share, compiled once: their main function, the way to the servers, and the proxy.
if(DOVETAIL_TESTS AND NOT TARGET dovetail_test_servers)
  find_package(Threads REQUIRED)
  set(folder ${PROJECT_SOURCE_DIR}/tests/servers)
  add_library(dovetail_test_servers STATIC EXCLUDE_FROM_ALL ${folder}/main.cc ${folder}/servers.cc
                                                            ${folder}/tcp_proxy.cc)
  target_include_directories(dovetail_test_servers PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(dovetail_test_servers PRIVATE DOVETAIL_SERVERS="${CMAKE_BINARY_DIR}/servers"
                                                           DOVETAIL_SERVERS_SCRIPT="${folder}/servers.py")
  target_compile_options(dovetail_test_servers PRIVATE $<$<CONFIG:Release>:-O0>)
  target_link_libraries(dovetail_test_servers PUBLIC GTest::gtest Threads::Threads PRIVATE dovetail_flags)
endif()

# dovetail_needed_servers(out target servers...): a source file that tells their main function which they are.
function(dovetail_needed_servers out target)
  list(JOIN ARGN " " needed)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_servers.cc)
  file(
    CONFIGURE
    OUTPUT ${file}
    CONTENT "namespace dovetail::servers {\nextern const char* const needed;\nconst char* const needed = \"${needed}\";\n}\n")
  set(${out} ${file} PARENT_SCOPE)
endfunction()

# dovetail_needs_servers(launcher fixtures servers...): what stands before the command of a test that needs these servers,
# and what its property FIXTURES_REQUIRED is. Of PostgreSQL each test has its own; brokers CTest starts once, before the
# first test that needs one, and stops after the last.
function(dovetail_needs_servers launcher fixtures)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(of_all kafka rabbitmq nats redis http http_tls)
  set(own)
  set(shared)
  foreach(server ${ARGN})
    if(server IN_LIST of_all)
      list(APPEND shared server_${server})
    else()
      list(APPEND own ${server})
    endif()
  endforeach()
  set(${fixtures} "${shared}" PARENT_SCOPE)
  set(${launcher} PARENT_SCOPE)
  if(own)
    list(JOIN own "," own)
    set(${launcher} ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/servers/servers.py --state
                    ${CMAKE_BINARY_DIR}/servers with ${own} PARENT_SCOPE)
  endif()
endfunction()

# dovetail_server_test(name SERVERS postgres [pgbouncer] ARGUMENTS_OF_dovetail_test...): a test against real servers.
# By hand: tests/servers/servers.py --state build/release/servers with postgres,pgbouncer build/release/.../name
function(dovetail_server_test name)
  if(NOT DOVETAIL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SERVERS;SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    # For what hangs; a slow machine takes its time.
    set(ARG_TIMEOUT 900)
  endif()
  dovetail_needed_servers(needed ${name} ${ARG_SERVERS})
  dovetail_needs_servers(launcher fixtures ${ARG_SERVERS})
  dovetail_test(
    ${name}
    SOURCES ${ARG_SOURCES} ${needed}
    LIBS ${ARG_LIBS} dovetail_test_servers
    LABELS ${ARG_LABELS} server
    TIMEOUT ${ARG_TIMEOUT}
    LAUNCHER ${launcher})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED "${fixtures}")
  set_target_properties(${name} PROPERTIES DOVETAIL_SERVERS "${ARG_SERVERS}")
endfunction()

# dovetail_also_on_new_postgres(name filter): those cases of the test on the newer version of PostgreSQL, too.
function(dovetail_also_on_new_postgres name filter)
  if(NOT TARGET ${name})
    return()
  endif()
  get_target_property(servers ${name} DOVETAIL_SERVERS)
  list(TRANSFORM servers REPLACE "^postgres$" postgres_new)
  dovetail_needs_servers(launcher fixtures ${servers})
  add_test(NAME ${name}_new COMMAND ${launcher} $<TARGET_FILE:${name}> --gtest_filter=${filter})
  get_test_property(${name} TIMEOUT timeout)
  get_test_property(${name} LABELS labels)
  set_tests_properties(
    ${name}_new
    PROPERTIES TIMEOUT "${timeout}"
               LABELS "${labels}"
               FIXTURES_REQUIRED "${fixtures}"
               SKIP_RETURN_CODE 77
               ENVIRONMENT DOVETAIL_POSTGRES=new)
endfunction()
