# Everything from outside, as targets named kvloupe::<library>, all of them SYSTEM for the compiler.
#   from the dependency cache (cmake/deps.sh): torch imgui implot implot3d imgui_test_engine hdf5 llama
#   from Debian: utf8proc pcre2 epoxy egl hwy md4c md4c_html cairo gif, and under their own names fmt::fmt CLI11::CLI11
#   nlohmann_json::nlohmann_json Freetype::Freetype Fontconfig::Fontconfig OpenSSL::Crypto PNG::PNG ZLIB::ZLIB GTest::gtest_main GTest::gmock
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/cmake/deps.sh paths OUTPUT_VARIABLE paths COMMAND_ERROR_IS_FATAL ANY)
# What this build folder is configured for; cmake/configured.sh compares.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/dependencies.txt CONTENT "${paths}")
string(REGEX MATCHALL "KVLOUPE_[A-Z0-9]+_DIR=[^\n]+" paths "${paths}")
foreach(line IN LISTS paths)
  string(REGEX MATCH "^([^=]+)=(.+)$" line "${line}")
  set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  if(NOT EXISTS ${CMAKE_MATCH_2})
    message(FATAL_ERROR "The dependency cache lacks ${CMAKE_MATCH_2}: run ./kvloupe.sh or cmake/deps.sh fetch")
  endif()
endforeach()
# A change of pins or recipes configures again.
file(GLOB recipes ${CMAKE_SOURCE_DIR}/cmake/imgui/* ${CMAKE_SOURCE_DIR}/cmake/llama/*)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/cmake/deps.sh ${recipes} ${CMAKE_SOURCE_DIR}/requirements.txt)

# --- libtorch, CPU part: headers for who links it PRIVATE, libraries for who links that ------------------------------
set(torch ${KVLOUPE_TORCH_DIR}/torch)
set(nvidia_lib ${KVLOUPE_TORCH_DIR}/nvidia/cu13/lib)
add_library(kvloupe_torch INTERFACE IMPORTED GLOBAL)
add_library(kvloupe::torch ALIAS kvloupe_torch)
# Torch ships headers of another fmt, whose functions no library here defines: Debian's go first.
find_path(KVLOUPE_FMT_INCLUDE fmt/format.h PATHS /usr/include NO_DEFAULT_PATH REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated/debian)
file(CREATE_LINK ${KVLOUPE_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/generated/debian/fmt SYMBOLIC)
target_include_directories(kvloupe_torch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated/debian)
target_include_directories(kvloupe_torch SYSTEM INTERFACE ${torch}/include ${torch}/include/torch/csrc/api/include)
target_link_libraries(kvloupe_torch INTERFACE ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so)
# Without -fopenmp at::parallel_for is compiled to a plain loop. The OpenMP runtime found at run time is Torch's own
# (same name, first on the path), so there is one pool of threads.
target_compile_options(kvloupe_torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_libraries(kvloupe_torch INTERFACE gomp)
# libtorch_cpu names NVIDIA libraries that a CPU program need not find when it is linked.
# Where its libraries lie is CMake's to write, so that an installed one can look beside itself.
target_link_options(kvloupe_torch INTERFACE -Wl,--allow-shlib-undefined)

# --- window libraries, one prebuilt archive --------------------------------------------------------------------------
find_package(glfw3 REQUIRED)
file(STRINGS ${KVLOUPE_IMGUI_DIR}/definitions.txt imgui_definitions)
set(imgui_include ${KVLOUPE_IMGUI_DIR}/include)
add_library(kvloupe_imgui_archive STATIC IMPORTED GLOBAL)
set_target_properties(kvloupe_imgui_archive PROPERTIES IMPORTED_LOCATION ${KVLOUPE_IMGUI_DIR}/lib/libkvloupe_imgui.a)
target_include_directories(kvloupe_imgui_archive SYSTEM INTERFACE
  ${imgui_include} ${imgui_include}/imgui ${imgui_include}/imgui/backends)
target_compile_definitions(kvloupe_imgui_archive INTERFACE ${imgui_definitions})
target_link_libraries(kvloupe_imgui_archive INTERFACE glfw ${CMAKE_DL_LIBS})
foreach(name imgui implot implot3d imgui_test_engine)
  add_library(kvloupe::${name} ALIAS kvloupe_imgui_archive)
endforeach()

# --- Debian ----------------------------------------------------------------------------------------------------------
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Fontconfig REQUIRED)
find_package(Freetype REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)

# kvloupe_debian_library(egl HEADER EGL/egl.h LIBRARY EGL): one header, one library, one target.
function(kvloupe_debian_library name)
  cmake_parse_arguments(arg "" "HEADER;LIBRARY" "" ${ARGN})
  string(TOUPPER ${name} upper)
  find_path(KVLOUPE_${upper}_INCLUDE ${arg_HEADER} REQUIRED)
  find_library(KVLOUPE_${upper}_LIBRARY NAMES ${arg_LIBRARY} REQUIRED)
  add_library(kvloupe_${name}_imported UNKNOWN IMPORTED GLOBAL)
  add_library(kvloupe::${name} ALIAS kvloupe_${name}_imported)
  set_target_properties(kvloupe_${name}_imported PROPERTIES
    IMPORTED_LOCATION ${KVLOUPE_${upper}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${KVLOUPE_${upper}_INCLUDE})
endfunction()
kvloupe_debian_library(utf8proc HEADER utf8proc.h LIBRARY utf8proc)
kvloupe_debian_library(epoxy HEADER epoxy/egl.h LIBRARY epoxy)
kvloupe_debian_library(csv HEADER csv.h LIBRARY csv)
kvloupe_debian_library(egl HEADER EGL/egl.h LIBRARY EGL)
kvloupe_debian_library(gif HEADER gif_lib.h LIBRARY gif)
kvloupe_debian_library(hwy HEADER hwy/highway.h LIBRARY hwy)
kvloupe_debian_library(pcre2 HEADER pcre2.h LIBRARY pcre2-8)
kvloupe_debian_library(md4c HEADER md4c.h LIBRARY md4c)
kvloupe_debian_library(md4c_html HEADER md4c-html.h LIBRARY md4c-html)
kvloupe_debian_library(cairo HEADER cairo/cairo-ft.h LIBRARY cairo)
kvloupe_debian_library(x11 HEADER X11/Xlib.h LIBRARY X11)

# --- HDF5, a prebuilt archive whose names stay inside the library that links it --------------------------------------
add_library(kvloupe_hdf5_archive STATIC IMPORTED GLOBAL)
add_library(kvloupe::hdf5 ALIAS kvloupe_hdf5_archive)
set_target_properties(kvloupe_hdf5_archive PROPERTIES
  IMPORTED_LOCATION ${KVLOUPE_HDF5_DIR}/lib/libhdf5.a
  INTERFACE_INCLUDE_DIRECTORIES ${KVLOUPE_HDF5_DIR}/include)
target_link_libraries(kvloupe_hdf5_archive INTERFACE ZLIB::ZLIB m ${CMAKE_DL_LIBS})

# --- llama.cpp's vocabularies, Jinja engine and ggml's types, likewise (cmake/llama) ----------------------------------
add_library(kvloupe_llama_archive STATIC IMPORTED GLOBAL)
add_library(kvloupe::llama ALIAS kvloupe_llama_archive)
set_target_properties(kvloupe_llama_archive PROPERTIES
  IMPORTED_LOCATION ${KVLOUPE_LLAMA_DIR}/lib/libkvloupe_llama.a
  INTERFACE_INCLUDE_DIRECTORIES ${KVLOUPE_LLAMA_DIR}/include)
target_link_libraries(kvloupe_llama_archive INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

if(KVLOUPE_TESTS)
  find_package(GTest REQUIRED)
endif()

# --- CUDA toolkit, for the plug-in alone -----------------------------------------------------------------------------
# The plug-in shares the runtime library of libtorch_cuda, which is CUDA 13's.
function(kvloupe_is_cuda_13 is_it program)
  execute_process(COMMAND ${program} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "release 13\\.")
    set(${is_it} FALSE PARENT_SCOPE)
  endif()
endfunction()
set(KVLOUPE_NVCC "")
if(NOT KVLOUPE_CUDA STREQUAL "OFF")
  # One that was found may be another by now, or gone. Until one is found it is looked for each time (cmake/configured.sh).
  set(is_cuda_13 TRUE)
  kvloupe_is_cuda_13(is_cuda_13 "${KVLOUPE_NVCC_PROGRAM}")
  if(NOT is_cuda_13)
    unset(KVLOUPE_NVCC_PROGRAM CACHE)
  endif()
  find_program(KVLOUPE_NVCC_PROGRAM nvcc PATHS /usr/local/cuda/bin VALIDATOR kvloupe_is_cuda_13)
  if(KVLOUPE_NVCC_PROGRAM)
    set(KVLOUPE_NVCC ${KVLOUPE_NVCC_PROGRAM})
  else()
    message(STATUS "CUDA plug-in off: no nvcc of CUDA 13 was found")
  endif()
  if(KVLOUPE_CUDA STREQUAL "ON" AND NOT KVLOUPE_NVCC)
    message(FATAL_ERROR "KVLOUPE_CUDA=ON, but no nvcc of CUDA 13 was found: install that toolkit or set KVLOUPE_NVCC_PROGRAM")
  endif()
endif()
