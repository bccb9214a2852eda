# SPDX-License-Identifier: BSD-3-Clause
# What `make install` and the Debian package put in place. Nothing in the programs knows the prefix: taut finds
# libtaut.so from where it itself lies.
if(TARGET taut)
	install(PROGRAMS ${PROJECT_BINARY_DIR}/taut DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
if(TARGET taut_preload)
	install(FILES ${PROJECT_BINARY_DIR}/libtaut.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
file(GLOB headers ${PROJECT_SOURCE_DIR}/include/taut/*.h ${PROJECT_SOURCE_DIR}/include/taut/*.json)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/taut)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/packaging/completion.bash
	DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME taut)
configure_file(${PROJECT_SOURCE_DIR}/packaging/taut.pc.in ${PROJECT_BINARY_DIR}/taut.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/taut.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
