# SPDX-License-Identifier: BSD-3-Clause
# The flags every source is held to. gcc 12 and clang 14 both build without a warning.
option(TT_WERROR "Treat warnings as errors" OFF)
add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wconversion
	-Wcast-align -Wvla -Wformat=2 -Wundef -Wimplicit-fallthrough)
if(TT_WERROR)
	add_compile_options(-Werror)
endif()
add_compile_definitions(_GNU_SOURCE TAUT_VERSION="${PROJECT_VERSION}")
