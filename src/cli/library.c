/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libtaut.so"

/* TAUT_LIBDIR_FROM_BIN leads from the folder of the installed executable to the library's. */

static bool usable(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, R_OK) == 0;
}

/* The folder of this executable, without its last slash. */
static bool own_folder(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return false;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

static bool absolute(const char *path, char out[PATH_MAX])
{
	return usable(path) && realpath(path, out) != NULL;
}

static bool look(char out[PATH_MAX])
{
	char folder[PATH_MAX], path[2 * PATH_MAX];

	if (!own_folder(folder))
		return false;
	snprintf(path, sizeof(path), "%s/" LIBRARY, folder);
	if (absolute(path, out))
		return true;
	snprintf(path, sizeof(path), "%s/" TAUT_LIBDIR_FROM_BIN "/" LIBRARY, folder);
	return absolute(path, out);
}

int tt_library_find(const char *given, char out[PATH_MAX], char *error, size_t size)
{
	if (given && *given) {
		if (!absolute(given, out)) {
			snprintf(error, size, "the library %s can't be read: %s", given,
			    strerror(errno));
			return -1;
		}
	} else if (!look(out)) {
		snprintf(error, size,
		    LIBRARY
		    " stands neither beside this program nor in its folder's " TAUT_LIBDIR_FROM_BIN
		    "; name it by --library or TAUT_LIBRARY");
		return -1;
	}
	/* The list has no way to quote its separators, and $ starts a word that the loader expands.
	 */
	if (strpbrk(out, " :$")) {
		snprintf(error, size,
		    "LD_PRELOAD can't hold the path %s (a blank, colon or dollar sign); name a "
		    "copy "
		    "in another folder in TAUT_LIBRARY",
		    out);
		return -1;
	}
	return 0;
}

char *tt_preload_without(const char *list)
{
	char *out = calloc(1, list ? strlen(list) + 1 : 1);
	size_t len = 0;

	if (!out || !list)
		return out;
	for (;;) {
		const char *last;
		size_t n;

		list += strspn(list, " :");
		n = strcspn(list, " :");
		if (n == 0)
			return out;
		last = memrchr(list, '/', n);
		last = last ? last + 1 : list;
		if ((size_t)(list + n - last) != sizeof(LIBRARY) - 1 ||
		    memcmp(last, LIBRARY, sizeof(LIBRARY) - 1) != 0) {
			if (len)
				out[len++] = ':';
			memcpy(out + len, list, n);
			len += n;
		}
		list += n;
	}
}

char *tt_preload_with(const char *list, const char *path)
{
	char *rest = tt_preload_without(list);
	char *out = NULL;

	if (!rest)
		return NULL;
	if (asprintf(&out, "%s%s%s", path, *rest ? ":" : "", rest) < 0)
		out = NULL;
	free(rest);
	return out;
}
