# Where things lie beside the program, in the build folder as where it is installed:
#   bin/kvloupe  lib/kvloupe/*.so (in a build folder lib/*.so)  share/kvloupe/{tours,traces,papers,python,data}
# and in a build folder alone share/kvloupe/checkout, whose scripts fetch models and the peer of `bench`.
# And the packages: `cmake --install BUILD --prefix DIR`, and `cpack` in the build folder for a Debian package. Libtorch is in
# both, for no Debian has it; other libraries are the system's.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/kvloupe)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/${share})
foreach(pair tours=assets/tours traces=assets/traces papers=assets/papers python=capture/python checkout=.)
  string(REGEX MATCH "^(.+)=(.+)$" pair ${pair})
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${CMAKE_MATCH_2} ${CMAKE_BINARY_DIR}/${share}/${CMAKE_MATCH_1} SYMBOLIC)
endforeach()
file(CREATE_LINK ${KVLOUPE_DATA_DIR} ${CMAKE_BINARY_DIR}/${share}/data SYMBOLIC)

set(libraries lib/kvloupe)
set(programs kvloupe kvloupe_render)
set(own_libraries kvloupe_core kvloupe_engine kvloupe_sim_plugin kvloupe_heap)
# The same in the build folder. What CMake would edit when it installs ends with a colon, and with it the loader looks in the
# working folder.
set_target_properties(${programs} ${own_libraries} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "\$ORIGIN/../${libraries};\$ORIGIN/../lib")
set_target_properties(${own_libraries} PROPERTIES INSTALL_RPATH "\$ORIGIN;${torch}/lib")
install(TARGETS ${programs} RUNTIME)
install(TARGETS ${own_libraries} LIBRARY DESTINATION ${libraries})
foreach(target ${own_libraries})
  install(CODE "file(RPATH_SET FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${libraries}/$<TARGET_FILE_NAME:${target}>\" NEW_RPATH [[\$ORIGIN]])")
endforeach()
# For other programs: -lkvloupe finds it, and it finds the engine in the folder below.
set_target_properties(kvloupe_library PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS kvloupe_library LIBRARY DESTINATION lib)
install(FILES core/c_api/kvloupe.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# libtorch_cpu, what it names, and what that names: NVIDIA's libraries for its profiler, the CUDA runtime, OpenMP.
file(GLOB torch_libraries
  ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so ${torch}/lib/libgomp.so.1
  ${nvidia_lib}/libcudart.so.13 ${nvidia_lib}/libcupti.so.13)
install(PROGRAMS ${torch_libraries} DESTINATION ${libraries})
# A fifth of it is a table of symbols that nothing loads.
install(CODE "execute_process(COMMAND ${CMAKE_STRIP} --strip-unneeded \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${libraries}/libtorch_cpu.so\" COMMAND_ERROR_IS_FATAL ANY)")

install(FILES assets/tours/first.md DESTINATION ${share}/tours)
install(DIRECTORY assets/papers/ DESTINATION ${share}/papers)
install(FILES assets/traces/tour.h5 assets/traces/tour_closed.h5 DESTINATION ${share}/traces)
# What the program runs of Python, and the same as a wheel, for pip: from a folder it installs only who may write there.
install(DIRECTORY capture/python/kvloupe DESTINATION ${share}/python PATTERN __pycache__ EXCLUDE)
install(CODE "execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/python/wheel.py ${CMAKE_SOURCE_DIR}/capture/python \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${share}/python\" COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${KVLOUPE_DATA_DIR}/ DESTINATION ${share}/data)

install(FILES assets/desktop/kvloupe.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications)
install(FILES assets/desktop/kvloupe.svg DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps)
install(FILES assets/desktop/kvloupe.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

# Man pages and completions are what the program says of itself.
set(desk ${CMAKE_BINARY_DIR}/desk)
add_custom_command(
  OUTPUT ${desk}/done
  COMMAND ${CMAKE_SOURCE_DIR}/cmake/desk_texts.sh $<TARGET_FILE:kvloupe> ${desk}
  DEPENDS kvloupe ${CMAKE_SOURCE_DIR}/cmake/desk_texts.sh
  COMMENT "Writing man pages and completions"
  VERBATIM)
add_custom_target(desk ALL DEPENDS ${desk}/done)
add_custom_target(package_needs DEPENDS run_needs desk)
install(DIRECTORY ${desk}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${desk}/kvloupe.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kvloupe)
install(FILES ${desk}/_kvloupe DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${desk}/kvloupe.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kvloupe)
set(CPACK_PACKAGE_CONTACT "The KVLoupe developers <kvloupe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "A window and a command line for traces of sparse attention: captures a language model in chunked
prefill with the selections of 28 methods, and replays, compares and explains them.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "")
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}/lib ${torch}/lib ${nvidia_lib})
# What is loaded while it runs: OpenGL without a screen, and the fonts.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libegl1, libegl-mesa0, libgl1, libgl1-mesa-dri, fonts-inter, fonts-jetbrains-mono")
# And what arrays and methods in Python are read with (Debian 12 has no package of safetensors).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "fonts-noto-core, python3-numpy, python3-h5py")
include(CPack)
