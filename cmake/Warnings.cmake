# SPDX-License-Identifier: BSD-3-Clause
# The flags every source is held to. gcc 12 and clang 14 both build without a warning.
option(TT_WERROR "Treat warnings as errors" OFF)
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion
	-Wcast-align -Wvla -Wformat=2 -Wundef -Wimplicit-fallthrough)
if(TT_WERROR)
	add_compile_options(-Werror)
endif()
add_compile_definitions(_GNU_SOURCE TAUT_VERSION="${PROJECT_VERSION}")
# True in the builds that run under a sanitizer: what they link and load differs from the product.
string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" tt_flags)
set(TT_SANITIZED OFF)
if("${CMAKE_C_FLAGS} ${${tt_flags}}" MATCHES "-fsanitize")
	set(TT_SANITIZED ON)
endif()
