# SPDX-License-Identifier: BSD-3-Clause
# The man pages, made by the program itself and the written parts in docs/man/. Not under a sanitizer: there the
# program would have to run during the build, for pages that nobody installs.
if(TARGET taut AND NOT CMAKE_CROSSCOMPILING AND NOT TT_SANITIZED)
	file(GLOB parts ${PROJECT_SOURCE_DIR}/docs/man/*)
	set(man ${PROJECT_BINARY_DIR}/man)
	add_custom_command(OUTPUT ${man}/made
		COMMAND ${CMAKE_COMMAND} -E rm -rf ${man}
		COMMAND ${PROJECT_SOURCE_DIR}/tools/make-man $<TARGET_FILE:taut> ${man}
		COMMAND ${CMAKE_COMMAND} -E touch ${man}/made
		DEPENDS taut ${parts} ${PROJECT_SOURCE_DIR}/tools/make-man
		COMMENT "Making the man pages")
	add_custom_target(manual ALL DEPENDS ${man}/made)
	install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR} PATTERN made EXCLUDE)
endif()
