# `cmake --install build --prefix P`, and `cpack -G DEB --config build/CPackConfig.cmake`. Programs
# find everything relative to themselves, so an installation can be moved.
include(GNUInstallDirs)
install(TARGETS braid braidd braid-trainer braid-supervisor braid-embedder
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(TARGETS braid_sentencepiece braid-tokenizer-trainer
  RUNTIME DESTINATION lib/braid COMPONENT programs
  LIBRARY DESTINATION lib/braid COMPONENT programs)
install(PROGRAMS deploy/gather_text.py DESTINATION share/braid COMPONENT programs)
# Manual pages and completions come from the programs' own command table.
install(CODE [[
  set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  set(braid "${CMAKE_CURRENT_LIST_DIR}/bin/braid")
  file(MAKE_DIRECTORY "${share}/man/man1" "${share}/bash-completion/completions"
    "${share}/zsh/vendor-completions" "${share}/fish/vendor_completions.d")
  execute_process(COMMAND "${braid}" man OUTPUT_FILE "${share}/man/man1/braid.1" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${braid}" completion bash
    OUTPUT_FILE "${share}/bash-completion/completions/braid" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${braid}" completion zsh
    OUTPUT_FILE "${share}/zsh/vendor-completions/_braid" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${braid}" completion fish
    OUTPUT_FILE "${share}/fish/vendor_completions.d/braid.fish" COMMAND_ERROR_IS_FATAL ANY)
]] COMPONENT programs)
install(FILES deploy/systemd/braidd.service
  DESTINATION lib/systemd/system COMPONENT programs)
install(FILES deploy/logrotate/braidd
  DESTINATION ${CMAKE_INSTALL_DATADIR}/braid/logrotate COMPONENT programs)
install(FILES README.md LICENSE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/braid COMPONENT programs)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL programs)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGE_NAME braid)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The braid authors <braid@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Train segment-routed soft-MoE language models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# The module is opened at run time, from its own directory.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
# Without OpenBLAS the reference BLAS would satisfy libblas.so.3, at a hundredth of the speed.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0, openmpi-bin, python3")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
include(CPack)
