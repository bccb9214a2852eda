/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * json [PATH=VALUE]...: each line of the input must be one JSON document; in the last one,
 * a.b.0.c=VALUE must hold (VALUE as JSON, or a bare string). Exit 0, or 1 after saying what is
 * wrong.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *find(json_t *at, char *path)
{
	char *rest = NULL;

	for (char *name = strtok_r(path, ".", &rest); at && name; name = strtok_r(NULL, ".", &rest))
		at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
				       : json_object_get(at, name);
	return at;
}

static int holds(json_t *root, const char *arg)
{
	char *path = strdup(arg), *value = strchr(path, '='), *text = NULL;
	json_t *found;
	int ok;

	*value++ = '\0';
	found = find(root, path);
	text = found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
	ok = found && (json_is_string(found) ? strcmp(json_string_value(found), value) == 0
					     : strcmp(text, value) == 0);
	if (!ok)
		fprintf(stderr, "json: %s is %s\n", arg, text ? text : "missing");
	free(text);
	free(path);
	return ok;
}

int main(int argc, char **argv)
{
	json_t *root = NULL;
	json_error_t error;
	char *line = NULL;
	size_t size = 0;
	int lines = 0;

	while (getline(&line, &size, stdin) > 0) {
		json_decref(root);
		root = json_loads(line, JSON_REJECT_DUPLICATES, &error);
		lines++;
		if (!root) {
			fprintf(stderr, "json: line %d: %s\n", lines, error.text);
			return 1;
		}
	}
	free(line);
	if (!root) {
		fprintf(stderr, "json: no input\n");
		return 1;
	}
	for (int i = 1; i < argc; i++) {
		if (!strchr(argv[i], '=') || !holds(root, argv[i]))
			return 1;
	}
	json_decref(root);
	return 0;
}
