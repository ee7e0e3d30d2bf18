# How everything is compiled: standard, warnings, optimisation, sanitizers, linker, ccache.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# The program finds its libraries from where it stands.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
# Quick to build, still bearable to run; assertions on.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

add_library(kvloupe_options INTERFACE)
target_include_directories(kvloupe_options INTERFACE ${CMAKE_SOURCE_DIR})
# -fPIC for every object alike: the Torch precompiled header is shared by libraries and tests, which needs equal flags.
# Baseline x86-64-v3 (AVX2, FMA; Intel since 2013, AMD since 2015): the compiler then vectorises plain loops usefully,
# and libtorch's own kernels select wider units at run time. Code that is hot enough for AVX-512 dispatches by libhwy.
target_compile_options(kvloupe_options INTERFACE
  -fPIC
  -march=${KVLOUPE_MARCH}
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  -fdiagnostics-color=auto)
find_package(Threads REQUIRED)
target_link_libraries(kvloupe_options INTERFACE Threads::Threads)

add_library(kvloupe_warnings INTERFACE)
# -Wno-restrict: g++ 12 reports std::string concatenation falsely (GCC bug 105329).
# -Wno-psabi: a note about passing vector types that concerns no interface of ours.
# -Wconversion stays off: index arithmetic between int64_t (tensors) and size_t (containers) would drown its finds.
target_compile_options(kvloupe_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> -Wno-psabi)

if(KVLOUPE_SANITIZE)
  target_compile_options(kvloupe_options INTERFACE
    -fsanitize=${KVLOUPE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(kvloupe_options INTERFACE -fsanitize=${KVLOUPE_SANITIZE})
  if(KVLOUPE_SANITIZE MATCHES address)
    add_library(kvloupe_sanitize OBJECT cmake/sanitize.cpp)
    target_link_libraries(kvloupe_sanitize PRIVATE kvloupe_options kvloupe_warnings)
  endif()
  # g++ 12 warns about its own instrumented code.
  target_compile_options(kvloupe_warnings INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-array-bounds>)
endif()

# The fastest linker present: libtorch_cpu alone exports more than 100,000 symbols.
find_program(KVLOUPE_MOLD mold)
find_program(KVLOUPE_LLD ld.lld)
if(KVLOUPE_MOLD)
  target_link_options(kvloupe_options INTERFACE -fuse-ld=mold)
elseif(KVLOUPE_LLD)
  target_link_options(kvloupe_options INTERFACE -fuse-ld=lld)
endif()

# Paths relative to the checkout and a precompiled header that may count as equal: so a second clone hits the cache.
# Comments count: a precompiled header knows its parts by their whole text, so that one of the cache made before a
# comment was changed would not match them ("redefinition").
find_program(KVLOUPE_CCACHE_PROGRAM ccache)
if(KVLOUPE_CCACHE AND KVLOUPE_CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_COMMENTS=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${KVLOUPE_CCACHE_PROGRAM})
  # ccache must see the precompiled header in the preprocessed text.
  target_compile_options(kvloupe_options INTERFACE -fpch-preprocess)
endif()
