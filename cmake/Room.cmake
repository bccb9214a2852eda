# SPDX-License-Identifier: BSD-3-Clause
# tt_room(NAME SOURCES ... [TESTS ...] [USES room ...]): one folder of src/ as an object library tt_<NAME>, so
# that hidden symbols can be linked into its unit tests. A test foo_test.c stands beside foo.c and becomes
# the CTest case <room>/foo.
function(tt_room name)
	cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS;USES;LIBS" ${ARGN})
	add_library(tt_${name} OBJECT ${ROOM_SOURCES})
	target_include_directories(tt_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
		${PROJECT_BINARY_DIR}/src)
	target_compile_options(tt_${name} PRIVATE -fvisibility=hidden)
	target_link_libraries(tt_${name} PUBLIC ${ROOM_LIBS})
	if(NOT TT_HAVE_CMOCKA)
		return()
	endif()
	foreach(test IN LISTS ROOM_TESTS)
		string(REPLACE "_test.c" "" stem ${test})
		set(target test_${name}_${stem})
		add_executable(${target} ${test})
		set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
		target_link_libraries(${target} PRIVATE tt_${name} PkgConfig::TT_CMOCKA m)
		foreach(use IN LISTS ROOM_USES)
			target_link_libraries(${target} PRIVATE tt_${use})
		endforeach()
		add_test(NAME ${name}/${stem} COMMAND ${target})
		set_tests_properties(${name}/${stem} PROPERTIES LABELS "unit;core" TIMEOUT 120)
	endforeach()
endfunction()
