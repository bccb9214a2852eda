/* SPDX-License-Identifier: BSD-3-Clause */
/* Which processors a comparison uses, and what its prefixes mean. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/compare.h"
#include "measure/words.h"

/* What names the core of a processor; processors of one core give the same text. */
static void core_of(int cpu, char *buf, size_t size)
{
	char path[128];
	FILE *f;

	snprintf(
	    path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	f = fopen(path, "re");
	if (!f || !fgets(buf, (int)size, f))
		snprintf(buf, size, "%d\n", cpu);
	if (f)
		fclose(f);
}

/* One of our processors other than `other`, on another core if there is one; the last such one: the
 * first ones tend to serve interrupts. */
static int pick(int other)
{
	char core[256], its[256];
	cpu_set_t mine;
	int same_core = -1, any = -1;

	CPU_ZERO(&mine);
	if (sched_getaffinity(0, sizeof(mine), &mine) < 0)
		return -1;
	if (other >= 0)
		core_of(other, core, sizeof(core));
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
		if (!CPU_ISSET((unsigned int)cpu, &mine))
			continue;
		if (any < 0)
			any = cpu;
		if (cpu == other)
			continue;
		if (other < 0)
			return cpu;
		core_of(cpu, its, sizeof(its));
		if (strcmp(core, its) != 0)
			return cpu;
		if (same_core < 0)
			same_core = cpu;
	}
	return same_core >= 0 ? same_core : any;
}

void tt_compare_cpus(int *server_cpu, int *client_cpu)
{
	if (*client_cpu < 0)
		*client_cpu = pick(*server_cpu);
	if (*server_cpu < 0)
		*server_cpu = pick(*client_cpu);
}

bool tt_compare_accelerates(const char *prefix)
{
	bool found = strstr(prefix, "libtaut.so") != NULL;
	char **words;
	size_t n;

	if (found || tt_words_split(prefix, &words, &n) < 0)
		return found;
	for (size_t i = 0; i + 1 < n && !found; i++) {
		const char *base = strrchr(words[i], '/');

		base = base ? base + 1 : words[i];
		found = (strcmp(base, "taut") == 0 || strcmp(base, "{taut}") == 0) &&
			strcmp(words[i + 1], "run") == 0;
	}
	free(words);
	return found;
}
