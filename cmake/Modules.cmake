# The functions with which folders declare what they build. Sources are listed by name, one a line.
#
# kvloupe_add_module(NAME kvloupe_trace SOURCES a.cpp b.cpp [PUBLIC lib...] [PRIVATE lib...] [TORCH_PCH] [UNITY] [LIGHT]
#                    [PRECOMPILED <fmt/format.h> "app/x.h"...])
#   A static library. PUBLIC for what its headers include, PRIVATE for the rest (HDF5, Torch, ImGui are never PUBLIC).
#   TORCH_PCH precompiles <ATen/ATen.h> for it (needs kvloupe::torch in PRIVATE).
#   PRECOMPILED are headers that most of its files include: they are parsed once. Each file still includes what it names;
#   clang-tidy, which reads files without them, finds what is missing.
#   UNITY compiles eight files at a time, so that their headers are parsed once: a quarter of the time. Names in their
#   anonymous namespaces must differ then.
#   LIGHT is for what computes nothing that somebody waits for: see kvloupe_light().
#   Without sources it is an INTERFACE library, so that a folder may start empty.
#   Note: the linker takes from a static library only the objects that somebody refers to. An object that acts through
#   a static initialiser alone (TORCH_LIBRARY) needs a function in it that somebody calls.
#
# kvloupe_add_shared(NAME kvloupe_core MODULES kvloupe_base... [LINKS kvloupe_other_shared...])
#   A shared library of all objects of these modules, linked to what they name from outside the project. The modules of
#   this project that they need beside themselves must be in LINKS. Tests link modules, the program links these.
#
# kvloupe_sanitized(program)
#   Links cmake/sanitize.cpp into a program of a build with the address sanitizer.
#
# kvloupe_add_test(NAME trace_reader SOURCES a_test.cpp [LINKS lib...] [LABELS fast|capture|gui|cuda|cli] [TIMEOUT 60]
#                  [TORCH_PCH] [READS_SOURCE_DIR])
#   A GoogleTest program (gtest_main, gmock), registered with ctest under NAME. Label gui runs it under xvfb-run.
#   READS_SOURCE_DIR defines KVLOUPE_TEST_SOURCE_DIR, the folder of its sources. Only for tests that read files there: a
#   path of this checkout on the command line keeps the compiler cache from serving another one.
#   It runs in a folder of its own that it may write to.

# By how much what is sanitized is slower, about (tests/gui/slowness.h).
set(KVLOUPE_SLOWNESS 1)
if(KVLOUPE_SANITIZE)
  set(KVLOUPE_SLOWNESS 10)
endif()

# The module whose precompiled header the others reuse. GCC accepts it where the code generation flags are equal and
# definitions that differ are not used in Torch's headers.
function(kvloupe_torch_pch target)
  if(NOT TARGET kvloupe_torch_pch)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/torch_pch.cpp CONTENT "// Owns the precompiled header.\n")
    add_library(kvloupe_torch_pch OBJECT ${CMAKE_BINARY_DIR}/generated/torch_pch.cpp)
    target_link_libraries(kvloupe_torch_pch PRIVATE kvloupe_options kvloupe_warnings kvloupe::torch)
    target_precompile_headers(kvloupe_torch_pch PRIVATE <ATen/ATen.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM kvloupe_torch_pch)
endfunction()

# How tests without TORCH_PCH are compiled: GoogleTest is parsed once, and the optimiser is kept short, since what they test
# is compiled as it is for users. The precompiled header is for equal flags: -fopenmp of kvloupe::torch is another.
function(kvloupe_quick_test target)
  # g++ 12 warns about strings that it looked into half.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds$<SEMICOLON>-Wno-maybe-uninitialized$<SEMICOLON>-Wno-stringop-overflow>)
  get_target_property(links ${target} LINK_LIBRARIES)
  if("kvloupe::torch" IN_LIST links)
    return()
  endif()
  if(NOT TARGET kvloupe_test_pch)
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/test_pch.cpp CONTENT "// Owns the precompiled header.\n")
    add_library(kvloupe_test_pch OBJECT ${CMAKE_BINARY_DIR}/generated/test_pch.cpp)
    target_compile_options(kvloupe_test_pch PRIVATE $<$<CONFIG:Release>:-O1>)
    target_link_libraries(kvloupe_test_pch PRIVATE kvloupe_options kvloupe_warnings GTest::gmock)
    target_precompile_headers(kvloupe_test_pch PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM kvloupe_test_pch)
endfunction()

# What g++ 12 says of such files alone: that every file but the first is a header, and of strings that it looked into half.
function(kvloupe_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage$<SEMICOLON>-Wno-maybe-uninitialized>)
endfunction()

# Words, widgets and command lines: compiled with a short optimiser, which saves a third of their time.
function(kvloupe_light target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(kvloupe_add_module)
  cmake_parse_arguments(arg "TORCH_PCH;UNITY;LIGHT" "NAME" "SOURCES;PUBLIC;PRIVATE;PRECOMPILED" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvloupe_add_module(${arg_NAME}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    add_library(${arg_NAME} INTERFACE)
    target_link_libraries(${arg_NAME} INTERFACE kvloupe_options ${arg_PUBLIC})
    return()
  endif()
  add_library(${arg_NAME} STATIC ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PUBLIC kvloupe_options ${arg_PUBLIC} PRIVATE kvloupe_warnings ${arg_PRIVATE})
  if(arg_UNITY)
    kvloupe_unity(${arg_NAME})
  endif()
  if(arg_LIGHT)
    kvloupe_light(${arg_NAME})
  endif()
  if(arg_TORCH_PCH)
    kvloupe_torch_pch(${arg_NAME})
  endif()
  if(arg_PRECOMPILED)
    target_precompile_headers(${arg_NAME} PRIVATE ${arg_PRECOMPILED})
    # g++ 12 warns about strings that it looked into half.
    target_compile_options(${arg_NAME} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-stringop-overread>)
  endif()
endfunction()

function(kvloupe_add_shared)
  cmake_parse_arguments(arg "" "NAME" "MODULES;LINKS" ${ARGN})
  add_library(${arg_NAME} SHARED)
  foreach(module IN LISTS arg_MODULES)
    target_sources(${arg_NAME} PRIVATE $<TARGET_OBJECTS:${module}>)
    get_target_property(all ${module} LINK_LIBRARIES)
    get_target_property(public ${module} INTERFACE_LINK_LIBRARIES)
    list(FILTER all EXCLUDE REGEX "^kvloupe_")
    list(FILTER public EXCLUDE REGEX "^kvloupe_|LINK_ONLY")
    target_link_libraries(${arg_NAME} PRIVATE ${all} PUBLIC ${public})
  endforeach()
  set_target_properties(${arg_NAME} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${arg_NAME} PUBLIC kvloupe_options ${arg_LINKS})
  if(NOT KVLOUPE_SANITIZE)
    target_link_options(${arg_NAME} PRIVATE -Wl,-z,defs)
  endif()
  # Calls inside the library stay direct calls.
  target_link_options(${arg_NAME} PRIVATE -Wl,-Bsymbolic-functions)
endfunction()

function(kvloupe_sanitized program)
  if(TARGET kvloupe_sanitize)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:kvloupe_sanitize>)
  endif()
endfunction()

function(kvloupe_add_test)
  cmake_parse_arguments(arg "TORCH_PCH;READS_SOURCE_DIR" "NAME;TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "kvloupe_add_test(${arg_NAME}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  set(target test_${arg_NAME})
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE
    kvloupe_options kvloupe_warnings ${arg_LINKS} kvloupe_test_main GTest::gmock)
  if(arg_READS_SOURCE_DIR)
    target_compile_definitions(${target} PRIVATE KVLOUPE_TEST_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  kvloupe_sanitized(${target})
  if(arg_TORCH_PCH)
    kvloupe_torch_pch(${target})
    # Whoever computes may compute on `sim`.
    add_dependencies(${target} kvloupe_sim_plugin)
  else()
    kvloupe_quick_test(${target})
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  kvloupe_register_test(NAME ${arg_NAME} COMMAND ${target} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT})
endfunction()

# kvloupe_register_test(NAME n COMMAND c... LABELS l... [TIMEOUT s]): any command as a test, with the same conventions.
function(kvloupe_register_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  math(EXPR arg_TIMEOUT "${KVLOUPE_SLOWNESS} * ${arg_TIMEOUT}")
  list(GET arg_COMMAND 0 program)
  if(TARGET ${program})
    list(POP_FRONT arg_COMMAND)
    list(PREPEND arg_COMMAND $<TARGET_FILE:${program}>)
  endif()
  if("gui" IN_LIST arg_LABELS)
    list(PREPEND arg_COMMAND xvfb-run -a -s "-screen 0 1600x900x24 -noreset")
  endif()
  set(folder ${CMAKE_BINARY_DIR}/tests/work/${arg_NAME})
  file(MAKE_DIRECTORY ${folder})
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${folder})
  # ImGui's archive is not instrumented, so a container it fills looks overflowed to the address sanitizer. What a damaged
  # file asks for may be more than there is: that is refused and no fault.
  # Tests run side by side: OpenMP threads that wait by spinning would take the cores from the other test.
  set_tests_properties(${arg_NAME} PROPERTIES
    LABELS "${arg_LABELS}"
    TIMEOUT ${arg_TIMEOUT}
    SKIP_RETURN_CODE 77
    ENVIRONMENT "ASAN_OPTIONS=detect_container_overflow=0:allocator_may_return_null=1;LIBGL_ALWAYS_SOFTWARE=1;OMP_WAIT_POLICY=passive"
    # What Python compiled is kept in the build, whoever calls: without it, each process that imports transformers
    # compiles for 6 s.
    ENVIRONMENT_MODIFICATION "PYTHONDONTWRITEBYTECODE=unset:;PYTHONPYCACHEPREFIX=set:${CMAKE_BINARY_DIR}/bytecode")
  if("gui" IN_LIST arg_LABELS)
    # A window measured or clicked while another test takes both cores would time out.
    set_tests_properties(${arg_NAME} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# kvloupe_add_cuda_plugin(NAME kvloupe_cuda SOURCES a.cu b.cpp [ARCHITECTURES 80 90]): a shared library that the program
# loads after libtorch_cuda. nvcc is called directly: CMake 3.25 does not know CUDA 13. What its kernels take of a
# multiprocessor is left beside the objects as <source>.o.resources.
function(kvloupe_add_cuda_plugin)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;ARCHITECTURES" ${ARGN})
  if(NOT arg_ARCHITECTURES)
    set(arg_ARCHITECTURES 80 90)
  endif()
  # For cards that are newer than all of these, what their driver compiles itself.
  list(GET arg_ARCHITECTURES -1 newest)
  list(TRANSFORM arg_ARCHITECTURES REPLACE "(.+)" "-gencode=arch=compute_\\1,code=sm_\\1")
  list(APPEND arg_ARCHITECTURES -gencode=arch=compute_${newest},code=compute_${newest})
  set(torch ${KVLOUPE_TORCH_DIR}/torch)
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    if(source MATCHES "\\.cu$")
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
      add_custom_command(
        OUTPUT ${object}
        BYPRODUCTS ${object}.resources
        COMMAND ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh ${object}.resources ${KVLOUPE_NVCC} -std=c++20 -O3 -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
          ${arg_ARCHITECTURES} -Xcompiler=-fPIC --expt-relaxed-constexpr --expt-extended-lambda -diag-suppress=20012,20208
          -I${CMAKE_SOURCE_DIR} -isystem=${CMAKE_BINARY_DIR}/generated/debian -isystem=${torch}/include -isystem=${torch}/include/torch/csrc/api/include
          -MD -MF ${object}.d
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} ${CMAKE_SOURCE_DIR}/cmake/nvcc.sh
        DEPFILE ${object}.d
        COMMENT "Building CUDA object ${source}"
        VERBATIM)
      list(APPEND objects ${object})
    else()
      list(APPEND objects ${source})
    endif()
  endforeach()
  add_library(${arg_NAME} SHARED ${objects})
  set_target_properties(${arg_NAME} PROPERTIES LINKER_LANGUAGE CXX)
  get_filename_component(cuda_bin ${KVLOUPE_NVCC} DIRECTORY)
  target_include_directories(${arg_NAME} SYSTEM PRIVATE ${cuda_bin}/../include)
  target_link_libraries(${arg_NAME} PRIVATE
    kvloupe_options kvloupe_warnings kvloupe::torch
    ${torch}/lib/libc10_cuda.so ${torch}/lib/libtorch_cuda.so ${KVLOUPE_TORCH_DIR}/nvidia/cu13/lib/libcudart.so.13)
  # A source that is not listed shows here, and not on a user's GPU.
  if(NOT KVLOUPE_SANITIZE)
    target_link_options(${arg_NAME} PRIVATE -Wl,-z,defs)
  endif()
endfunction()
