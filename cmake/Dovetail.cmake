# Sanitized code is slower; the limits of its tests grow with it.
set(DOVETAIL_TIMEOUT_SCALE 1)
if(DOVETAIL_SANITIZE STREQUAL "address")
  set(DOVETAIL_TIMEOUT_SCALE 3)
elseif(DOVETAIL_SANITIZE STREQUAL "thread")
  set(DOVETAIL_TIMEOUT_SCALE 6)
endif()

# dovetail_test(name SOURCES a.cc b.cc [LIBS x y] [LABELS l] [TIMEOUT seconds]): one GoogleTest binary, registered
# with CTest. Exit code 77 of a test means "skipped", which CTest reports.
function(dovetail_test name)
  if(NOT DOVETAIL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} dovetail::dovetail dovetail_flags GTest::gtest
                                        GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  # The code under test is optimised, the tests themselves are not: that halves the time to compile them.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  math(EXPR timeout "${ARG_TIMEOUT} * ${DOVETAIL_TIMEOUT_SCALE}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77)
endfunction()

# dovetail_embed(target sql_file variable header_name): the text of a file as a string_view in a generated header.
function(dovetail_embed target file variable header)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/generated/${header})
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUTPUT=${out}
            -DVARIABLE=${variable} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  # A target may be of another directory, where the command's output is not known as a file to make.
  add_custom_target(${target}_${variable} DEPENDS ${out})
  add_dependencies(${target} ${target}_${variable})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()

# Adds a folder once it has something to build.
function(dovetail_subdirectory folder)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    add_subdirectory(${folder})
  endif()
endfunction()
