# Sanitized code is slower; the limits of its tests grow with it.
set(DOVETAIL_TIMEOUT_SCALE 1)
if(DOVETAIL_SANITIZE STREQUAL "address")
  set(DOVETAIL_TIMEOUT_SCALE 3)
elseif(DOVETAIL_SANITIZE STREQUAL "thread")
  set(DOVETAIL_TIMEOUT_SCALE 6)
endif()

# What nearly every test includes is read once, and not for each file again: that takes a third of the time to compile
# them. Optimised code goes without, because GCC 12 then warns of what it sees in the headers of the system. A test that
# misses an include of its own shows in the presets with a sanitizer, which go without, too.
if(DOVETAIL_TESTS)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cc CONTENT "int main() {}\n")
  add_executable(dovetail_test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cc)
  target_link_libraries(dovetail_test_headers PRIVATE tl::expected GTest::gtest dovetail_flags)
  target_compile_options(dovetail_test_headers PRIVATE $<$<CONFIG:Release>:-O0>)
  target_precompile_headers(
    dovetail_test_headers
    PRIVATE
    <gtest/gtest.h>
    <algorithm>
    <array>
    <atomic>
    <chrono>
    <cstdint>
    <deque>
    <filesystem>
    <fstream>
    <functional>
    <map>
    <memory>
    <mutex>
    <optional>
    <set>
    <span>
    <sstream>
    <string>
    <string_view>
    <thread>
    <tl/expected.hpp>
    <unordered_map>
    <vector>)
endif()

# dovetail_test_program(name): how a program that uses GoogleTest is compiled. The code under test is optimised, the
# tests themselves are not: that halves the time to compile them.
function(dovetail_test_program name)
  target_link_libraries(${name} PRIVATE dovetail::dovetail dovetail_flags GTest::gtest)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  target_precompile_headers(${name} REUSE_FROM dovetail_test_headers)
endfunction()

# dovetail_test(name SOURCES a.cc b.cc [LIBS x y] [LABELS l] [TIMEOUT seconds] [LAUNCHER command]): one GoogleTest binary,
# registered with CTest, which starts it through the launcher. Exit code 77 of a test means "skipped", which CTest reports.
function(dovetail_test name)
  if(NOT DOVETAIL_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LIBS;LABELS;LAUNCHER" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest_main)
  dovetail_test_program(${name})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  math(EXPR timeout "${ARG_TIMEOUT} * ${DOVETAIL_TIMEOUT_SCALE}")
  add_test(NAME ${name} COMMAND ${ARG_LAUNCHER} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${ARG_LABELS}" SKIP_RETURN_CODE 77)
endfunction()

# dovetail_early(test...): tests that take long begin before others, so that none is left alone at the end. CTest knows by
# itself only where it has run them before.
function(dovetail_early)
  foreach(name ${ARGN})
    if(TEST ${name})
      set_tests_properties(${name} PROPERTIES COST 100)
    endif()
  endforeach()
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

# dovetail_compile_rooms(folder): every target of the folder and below, but for tests, compiles what lies in one folder as
# one unit, which reads the headers once: that saves a fifth of the time. So names that only one file knows must not clash
# within a folder. A file with definitions or options of its own, or with the property DOVETAIL_APART, is compiled alone.
# Not CMAKE_UNITY_BUILD: its units name absolute paths, and another working tree finds none of them in the compiler cache.
function(dovetail_compile_rooms folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type MATCHES "EXECUTABLE|_LIBRARY" AND NOT type STREQUAL "INTERFACE_LIBRARY" AND NOT target MATCHES "_test")
      dovetail_compile_rooms_of(${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    dovetail_compile_rooms(${below})
  endforeach()
endfunction()

function(dovetail_compile_rooms_of target)
  get_target_property(home ${target} SOURCE_DIR)
  get_target_property(binary ${target} BINARY_DIR)
  get_target_property(sources ${target} SOURCES)
  set(rooms)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${home} NORMALIZE)
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR ${source} is_ours)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR ${source} is_generated)
    get_property(is_apart SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY DOVETAIL_APART)
    get_property(definitions SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY COMPILE_DEFINITIONS)
    get_property(options SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY COMPILE_OPTIONS)
    if(is_ours AND NOT is_generated AND NOT is_apart AND NOT definitions AND NOT options AND source MATCHES "\\.cc$")
      cmake_path(GET source PARENT_PATH room)
      cmake_path(RELATIVE_PATH room BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
      string(MAKE_C_IDENTIFIER "${name}" name)
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${binary}/rooms OUTPUT_VARIABLE path)
      list(APPEND rooms ${name})
      string(APPEND text_${name} "#include \"${path}\"\n")
      set_property(SOURCE ${source} TARGET_DIRECTORY ${target} PROPERTY HEADER_FILE_ONLY ON)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room ${rooms})
    set(file ${binary}/rooms/${target}_${room}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${room}}" @ONLY)
    target_sources(${target} PRIVATE ${file})
  endforeach()
  # Whatever is in an unnamed namespace of an included file looks as if every file had its own.
  target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
endfunction()
