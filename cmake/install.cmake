# `cmake --install build --prefix P`, and `cpack -G DEB --config build/CPackConfig.cmake`. Programs
# find everything relative to themselves, so an installation can be moved.
include(GNUInstallDirs)
install(TARGETS braid braidd braid-trainer braid-supervisor braid-embedder
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(TARGETS braid_sentencepiece braid-tokenizer-trainer
  RUNTIME DESTINATION lib/braid COMPONENT programs
  LIBRARY DESTINATION lib/braid COMPONENT programs)
install(PROGRAMS deploy/gather_text.py DESTINATION share/braid COMPONENT programs)
# Manual pages and completions come from the programs' own command table. HOME appears in them as
# part of defaults, so it is not that of the builder.
install(CODE [[
  set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  set(bin "${CMAKE_CURRENT_LIST_DIR}/bin")
  function(generate file)
    get_filename_component(directory "${share}/${file}" DIRECTORY)
    file(MAKE_DIRECTORY "${directory}")
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env --unset=BRAID_HOME "HOME=~" ${ARGN}
      OUTPUT_FILE "${share}/${file}" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  generate(man/man1/braidd.1 "${bin}/braidd" --man)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env --unset=BRAID_HOME "HOME=~"
    "${bin}/braid" man --directory "${share}/man/man1" COMMAND_ERROR_IS_FATAL ANY)
  generate(bash-completion/completions/braid "${bin}/braid" completion bash)
  generate(zsh/vendor-completions/_braid "${bin}/braid" completion zsh)
  generate(fish/vendor_completions.d/braid.fish "${bin}/braid" completion fish)
]] COMPONENT programs)
install(FILES deploy/systemd/braidd.service
  DESTINATION lib/systemd/system COMPONENT programs)
# The unit starts the installed braidd. That of a package, which is staged elsewhere, stays as it is.
install(CODE [[
  if(NOT CMAKE_INSTALL_PREFIX MATCHES "/_CPack_Packages/")
    set(unit "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/systemd/system/braidd.service")
    file(READ "${unit}" text)
    string(REPLACE "ExecStart=/usr/bin/" "ExecStart=${CMAKE_INSTALL_PREFIX}/bin/" text "${text}")
    file(WRITE "${unit}" "${text}")
  endif()
]] COMPONENT programs)
install(FILES deploy/logrotate/braidd
  DESTINATION ${CMAKE_INSTALL_DATADIR}/braid/logrotate COMPONENT programs)
install(FILES README.md CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/braid COMPONENT programs)
install(FILES LICENSE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/braid RENAME copyright COMPONENT programs)

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
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/postinst ${CMAKE_SOURCE_DIR}/deploy/debian/prerm
  ${CMAKE_SOURCE_DIR}/deploy/debian/postrm)
include(CPack)
