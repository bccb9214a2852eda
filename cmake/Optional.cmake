# SPDX-License-Identifier: BSD-3-Clause
# tt_optional(NAME pkg-config-module debian-package): an ON/OFF/AUTO switch TT_WITH_<NAME>. AUTO takes the
# library where it is installed; ON makes its absence an error. Sets TT_HAVE_<NAME> and the imported target
# PkgConfig::TT_<NAME>.
find_package(PkgConfig)
function(tt_optional name module package)
	set(TT_WITH_${name} AUTO CACHE STRING "Build with ${module} (ON, OFF, AUTO)")
	set(TT_HAVE_${name} OFF PARENT_SCOPE)
	if(NOT TT_WITH_${name} STREQUAL OFF)
		if(PKG_CONFIG_FOUND)
			pkg_check_modules(TT_${name} QUIET IMPORTED_TARGET ${module})
		endif()
		if(TT_${name}_FOUND)
			set(TT_HAVE_${name} ON PARENT_SCOPE)
			set_property(GLOBAL APPEND PROPERTY TT_OPTIONAL "${module}: yes")
			return()
		elseif(TT_WITH_${name} STREQUAL ON)
			message(FATAL_ERROR "${module} was asked for and is not installed: apt-get install ${package}")
		endif()
	endif()
	set_property(GLOBAL APPEND PROPERTY TT_OPTIONAL "${module}: no (apt-get install ${package})")
endfunction()

function(tt_optional_summary)
	get_property(rows GLOBAL PROPERTY TT_OPTIONAL)
	foreach(row IN LISTS rows)
		message(STATUS "optional ${row}")
	endforeach()
endfunction()

tt_optional(JANSSON jansson libjansson-dev)
tt_optional(CMOCKA cmocka libcmocka-dev)
