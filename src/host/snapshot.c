/* SPDX-License-Identifier: BSD-3-Clause */
#include "host/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "host/tree.h"

#define CPUINFO_MAX (64u << 10) /* the first processors are enough */

struct shot {
	const char *root;
	struct taut_host *host;
	unsigned int nics, irqs, irqs_shared;
	char nic[32]; /* IFNAMSIZ is 16 */
	char isolated[TAUT_TEXT_MAX];
	char seen[TAUT_TEXT_MAX]; /* distinct values met by a walk */
	char cpu_seen[TAUT_TEXT_MAX];
};

enum how {
	TEXT,    /* the file's text */
	NUMBER,  /* the file's number */
	LIST,    /* text, and empty means "none" */
	BRACKET, /* "always [madvise] never": the chosen word */
	ONE      /* a flag: the file holds 1 (or Y) */
};

struct row {
	const char *key, *path;
	enum how how;
};

static const struct row rows[] = {
    {"kernel.release", "proc/sys/kernel/osrelease", TEXT},
    {"kernel.version", "proc/sys/kernel/version", TEXT},
    {"cpu.online", "sys/devices/system/cpu/online", TEXT},
    {"cpu.isolated", "sys/devices/system/cpu/isolated", LIST},
    {"cpu.nohz_full", "sys/devices/system/cpu/nohz_full", LIST},
    {"cpu.smt", "sys/devices/system/cpu/smt/active", ONE},
    {"cpu.nodes", "sys/devices/system/node/online", TEXT},
    {"idle.driver", "sys/devices/system/cpu/cpuidle/current_driver", TEXT},
    {"idle.governor", "sys/devices/system/cpu/cpuidle/current_governor", TEXT},
    {"freq.driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", TEXT},
    {"freq.min_khz", "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", NUMBER},
    {"freq.max_khz", "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", NUMBER},
    {"freq.no_turbo", "sys/devices/system/cpu/intel_pstate/no_turbo", ONE},
    {"freq.boost", "sys/devices/system/cpu/cpufreq/boost", ONE},
    {"clock.source", "sys/devices/system/clocksource/clocksource0/current_clocksource", TEXT},
    {"clock.available", "sys/devices/system/clocksource/clocksource0/available_clocksource", TEXT},
    {"memory.thp", "sys/kernel/mm/transparent_hugepage/enabled", BRACKET},
    {"memory.thp_shmem", "sys/kernel/mm/transparent_hugepage/shmem_enabled", BRACKET},
    {"memory.numa_balancing", "proc/sys/kernel/numa_balancing", NUMBER},
    {"irq.default_affinity", "proc/irq/default_smp_affinity", TEXT},
    {"net.busy_read_us", "proc/sys/net/core/busy_read", NUMBER},
    {"net.busy_poll_us", "proc/sys/net/core/busy_poll", NUMBER},
    {"net.rmem_max", "proc/sys/net/core/rmem_max", NUMBER},
    {"net.wmem_max", "proc/sys/net/core/wmem_max", NUMBER},
    {"net.tcp_rmem", "proc/sys/net/ipv4/tcp_rmem", TEXT},
    {"net.tcp_wmem", "proc/sys/net/ipv4/tcp_wmem", TEXT},
    {"net.congestion_control", "proc/sys/net/ipv4/tcp_congestion_control", TEXT},
};

static void spaces(char *s)
{
	for (; *s; s++) {
		if (*s == '\t' || *s == '\n')
			*s = ' ';
	}
}

static int unreadable(struct shot *s, const char *key, const char *path, int rc)
{
	char text[TAUT_TEXT_MAX];

	snprintf(text, sizeof(text), "/%.180s: %s", path, strerror(-rc));
	return taut_fact_unknown(s->host, key, text);
}

static int row_read(struct shot *s, const struct row *row)
{
	char text[TAUT_TEXT_MAX], *low, *high;
	double n;
	int rc = tt_tree_read(s->root, row->path, text, sizeof(text));

	if (rc < 0)
		return unreadable(s, row->key, row->path, rc);
	spaces(text);
	switch (row->how) {
	case TEXT:
		return taut_fact_text(s->host, row->key, text);
	case LIST:
		if (!text[0] || strcmp(text, "(null)") == 0)
			strcpy(text, "none");
		return taut_fact_text(s->host, row->key, text);
	case NUMBER:
		rc = tt_tree_read_number(s->root, row->path, &n);
		if (rc < 0)
			return unreadable(s, row->key, row->path, rc);
		return taut_fact_number(s->host, row->key, n);
	case ONE:
		return taut_fact_flag(s->host, row->key, text[0] == '1' || text[0] == 'Y');
	case BRACKET:
		low = strchr(text, '[');
		high = low ? strchr(low, ']') : NULL;
		if (!high)
			return unreadable(s, row->key, row->path, -EINVAL);
		*high = '\0';
		return taut_fact_text(s->host, row->key, low + 1);
	}
	return 0;
}

/* The value of "name<blanks>: value" or "name value" lines; NULL when there is none. */
static const char *line_value(const char *text, const char *name, char *buf, size_t size)
{
	size_t n = strlen(name);

	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		size_t len;

		if (strncmp(p, name, n) != 0 || !strchr(" \t:=", p[n]))
			continue;
		p += n + strspn(p + n, " \t:=");
		len = strcspn(p, "\n");
		snprintf(buf, size, "%.*s", (int)len, p);
		return buf;
	}
	return NULL;
}

static int os_name(struct shot *s)
{
	char value[TAUT_TEXT_MAX], *start = value;
	int rc;
	char *text = tt_tree_slurp(s->root, "etc/os-release", 4096, &rc);

	if (!text || !line_value(text, "PRETTY_NAME", value, sizeof(value))) {
		free(text);
		return unreadable(s, "os.name", "etc/os-release", text ? -ENODATA : rc);
	}
	free(text);
	if (*start == '"')
		start++;
	start[strcspn(start, "\"")] = '\0';
	return taut_fact_text(s->host, "os.name", start);
}

#if defined(__x86_64__)
/* The signature that a hypervisor shows: leaf 0x40000000, EBX, ECX, EDX. */
static void hypervisor_vendor(char out[13])
{
	unsigned int a, b, c, d;

	__cpuid(0x40000000u, a, b, c, d);
	(void)a;
	memcpy(out, &b, 4);
	memcpy(out + 4, &c, 4);
	memcpy(out + 8, &d, 4);
	out[12] = '\0';
}
#endif

static int machine(struct shot *s, const char *cpuinfo)
{
	static const struct row dmi[] = {
	    {"vm.dmi_vendor", "sys/class/dmi/id/sys_vendor", TEXT},
	    {"vm.dmi_product", "sys/class/dmi/id/product_name", TEXT},
	    {"vm.type", "sys/hypervisor/type", TEXT},
	};
	const char *flags = strstr(cpuinfo, "\nflags");
	const char *found = flags ? strstr(flags, " hypervisor") : NULL;
	bool guest = found && !memchr(flags + 1, '\n', (size_t)(found - flags - 1));
	int rc;

	rc = taut_fact_flag(s->host, "vm.guest", guest);
#if defined(__x86_64__)
	if (rc == 0 && guest && s->root[0] == '\0') {
		char vendor[13];

		hypervisor_vendor(vendor);
		for (size_t n = strlen(vendor); n > 0 && vendor[n - 1] == ' '; n--)
			vendor[n - 1] = '\0';
		rc = taut_fact_text(s->host, "vm.hypervisor", vendor);
	} else if (rc == 0 && guest)
		rc = taut_fact_unknown(s->host, "vm.hypervisor", "the tree is a recording");
#endif
	for (size_t i = 0; rc == 0 && i < tt_array_len(dmi); i++)
		rc = row_read(s, &dmi[i]);
	return rc;
}

static int cpu(struct shot *s)
{
	static const struct {
		const char *key, *name;
	} lines[] = {{"cpu.model", "model name"}, {"cpu.vendor", "vendor_id"},
	    {"cpu.microcode", "microcode"}, {"cpu.mhz_now", "cpu MHz"}};
	char value[TAUT_TEXT_MAX];
	int rc;
	char *text = tt_tree_slurp(s->root, "proc/cpuinfo", CPUINFO_MAX, &rc);

	if (!text)
		return unreadable(s, "cpu.model", "proc/cpuinfo", rc);
	rc = 0;
	for (size_t i = 0; rc == 0 && i < tt_array_len(lines); i++) {
		if (line_value(text, lines[i].name, value, sizeof(value)))
			rc = taut_fact_text(s->host, lines[i].key, value);
		else
			rc = taut_fact_unknown(s->host, lines[i].key, "/proc/cpuinfo does not say");
	}
	if (rc == 0)
		rc = machine(s, text);
	free(text);
	if (rc == 0 &&
	    tt_tree_read(s->root, "sys/devices/system/cpu/online", value, sizeof(value)) == 0)
		rc = taut_fact_number(s->host, "cpu.count", tt_cpulist_count(value));
	return rc;
}

/* The words that bear on latency; the rest of the command line is none of our business. */
static int kernel_words(struct shot *s)
{
	static const char *const starts[] = {"isolcpus=", "nohz_full=", "nohz=", "rcu_nocbs=",
	    "idle=", "intel_idle.", "processor.max_cstate", "mitigations=", "tsc=", "clocksource=",
	    "intel_pstate=", "amd_pstate=", "irqaffinity=", "iommu=", "intel_iommu=", "amd_iommu=",
	    "default_hugepagesz=", "hugepagesz=", "hugepages=", "transparent_hugepage=", "nosmt",
	    "preempt=", "threadirqs", "skew_tick=", "nosoftlockup", "nowatchdog", "pcie_aspm",
	    "audit=", "spectre_v2=", "pti=", "nopti"};
	char line[4096], kept[TAUT_TEXT_MAX] = "", *save = NULL;
	size_t len = 0;
	int rc = tt_tree_read(s->root, "proc/cmdline", line, sizeof(line));

	if (rc < 0)
		return unreadable(s, "kernel.words", "proc/cmdline", rc);
	for (char *w = strtok_r(line, " \n", &save); w; w = strtok_r(NULL, " \n", &save)) {
		for (size_t i = 0; i < tt_array_len(starts); i++) {
			if (strncmp(w, starts[i], strlen(starts[i])) != 0)
				continue;
			if (len < sizeof(kept))
				len += (size_t)snprintf(
				    kept + len, sizeof(kept) - len, "%s%s", len ? " " : "", w);
			break;
		}
	}
	return taut_fact_text(s->host, "kernel.words", len ? kept : "none");
}

/* Adds word to a comma-separated list unless it is there. */
static void seen_add(char *list, size_t size, const char *word)
{
	size_t n = strlen(word), len = strlen(list);

	for (const char *p = list; *p;) {
		size_t k = strcspn(p, ",");

		if (k == n && strncmp(p, word, n) == 0)
			return;
		p += k + (p[k] == ',');
	}
	snprintf(list + len, size - len, "%s%s", len ? "," : "", word);
}

static int governor_of(void *arg, const char *name)
{
	struct shot *s = arg;
	char path[TT_TREE_PATH_MAX], word[TAUT_NAME_MAX];

	if (strncmp(name, "policy", 6) != 0)
		return 0;
	snprintf(path, sizeof(path), "sys/devices/system/cpu/cpufreq/%s/scaling_governor", name);
	if (tt_tree_read(s->root, path, word, sizeof(word)) == 0)
		seen_add(s->seen, sizeof(s->seen), word);
	return 0;
}

static int governor(struct shot *s)
{
	int rc;

	s->seen[0] = '\0';
	rc = tt_tree_each(s->root, "sys/devices/system/cpu/cpufreq", governor_of, s);
	if (rc < 0)
		return unreadable(s, "freq.governor", "sys/devices/system/cpu/cpufreq", rc);
	if (!s->seen[0])
		return taut_fact_unknown(s->host, "freq.governor", "no frequency policy");
	return taut_fact_text(s->host, "freq.governor", s->seen);
}

/* "POLL:0us C1:2us C6:133us(off)" of the first processor. */
static int idle_state(void *arg, const char *name)
{
	struct shot *s = arg;
	char path[TT_TREE_PATH_MAX], word[TAUT_NAME_MAX];
	double latency = 0, off = 0;
	size_t len = strlen(s->seen);

	if (strncmp(name, "state", 5) != 0)
		return 0;
	snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu0/cpuidle/%s/name", name);
	if (tt_tree_read(s->root, path, word, sizeof(word)) < 0)
		return 0;
	snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu0/cpuidle/%s/latency", name);
	if (tt_tree_read_number(s->root, path, &latency) < 0)
		latency = 0;
	snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu0/cpuidle/%s/disable", name);
	if (tt_tree_read_number(s->root, path, &off) < 0)
		off = 0;
	snprintf(s->seen + len, sizeof(s->seen) - len, "%s%s:%.0fus%s", len ? " " : "", word,
	    latency, off > 0 ? "(off)" : "");
	return 0;
}

static int idle_states(struct shot *s)
{
	int rc;

	s->seen[0] = '\0';
	rc = tt_tree_each(s->root, "sys/devices/system/cpu/cpu0/cpuidle", idle_state, s);
	if (rc < 0)
		return unreadable(s, "idle.states", "sys/devices/system/cpu/cpu0/cpuidle", rc);
	return taut_fact_text(s->host, "idle.states", s->seen[0] ? s->seen : "none");
}

static int mitigation(void *arg, const char *name)
{
	struct shot *s = arg;
	char path[TT_TREE_PATH_MAX], key[TAUT_NAME_MAX], text[TAUT_TEXT_MAX];
	int rc;

	snprintf(path, sizeof(path), "sys/devices/system/cpu/vulnerabilities/%s", name);
	snprintf(key, sizeof(key), "mitigation.%s", name);
	rc = tt_tree_read(s->root, path, text, sizeof(text));
	if (rc < 0)
		return unreadable(s, key, path, rc);
	spaces(text);
	return taut_fact_text(s->host, key, text);
}

static int mitigations(struct shot *s)
{
	int rc = tt_tree_each(s->root, "sys/devices/system/cpu/vulnerabilities", mitigation, s);

	if (rc < 0 && rc != -ENOMEM)
		return unreadable(s, "mitigation", "sys/devices/system/cpu/vulnerabilities", rc);
	return rc;
}

/* How many interrupts may come to an isolated processor, and to which processors they may come at
 * all. */
static int irq(void *arg, const char *name)
{
	struct shot *s = arg;
	char path[TT_TREE_PATH_MAX], list[TAUT_TEXT_MAX];

	if (name[strspn(name, "0123456789")] != '\0' || s->irqs >= TT_SNAPSHOT_IRQS_MAX)
		return 0;
	snprintf(path, sizeof(path), "proc/irq/%s/effective_affinity_list", name);
	if (tt_tree_read(s->root, path, list, sizeof(list)) < 0 || !list[0]) {
		snprintf(path, sizeof(path), "proc/irq/%s/smp_affinity_list", name);
		if (tt_tree_read(s->root, path, list, sizeof(list)) < 0)
			return 0;
	}
	s->irqs++;
	if (strlen(s->seen) + strlen(list) + 2 < sizeof(s->seen))
		seen_add(s->seen, sizeof(s->seen), list);
	for (const char *p = s->isolated; *p; p += strcspn(p, ",") + (strchr(p, ',') != NULL)) {
		long low = strtol(p, NULL, 10), high = low;
		const char *dash = p + strspn(p, "0123456789");

		if (*dash == '-')
			high = strtol(dash + 1, NULL, 10);
		for (long c = low; c <= high; c++) {
			if (tt_cpulist_has(list, (int)c)) {
				s->irqs_shared++;
				return 0;
			}
		}
	}
	return 0;
}

static int irqs(struct shot *s)
{
	int rc;

	s->seen[0] = '\0';
	if (tt_tree_read(
		s->root, "sys/devices/system/cpu/isolated", s->isolated, sizeof(s->isolated)) < 0)
		s->isolated[0] = '\0';
	rc = tt_tree_each(s->root, "proc/irq", irq, s);
	if (rc < 0)
		return unreadable(s, "irq.count", "proc/irq", rc);
	rc = taut_fact_number(s->host, "irq.count", s->irqs);
	if (rc == 0)
		rc = taut_fact_number(s->host, "irq.on_isolated", s->irqs_shared);
	if (rc == 0)
		rc = taut_fact_text(s->host, "irq.cpus", s->seen[0] ? s->seen : "none");
	return rc;
}

static int limits(struct shot *s)
{
	static const struct {
		const char *key, *name;
	} lines[] = {{"limit.nofile", "Max open files"}, {"limit.memlock", "Max locked memory"},
	    {"limit.rtprio", "Max realtime priority"}, {"limit.fsize", "Max file size"}};
	char value[TAUT_TEXT_MAX];
	int rc;
	char *text = tt_tree_slurp(s->root, "proc/self/limits", 8192, &rc);

	if (!text)
		return unreadable(s, "limit", "proc/self/limits", rc);
	rc = 0;
	for (size_t i = 0; rc == 0 && i < tt_array_len(lines); i++) {
		if (!line_value(text, lines[i].name, value, sizeof(value))) {
			rc = taut_fact_unknown(
			    s->host, lines[i].key, "/proc/self/limits does not say");
			continue;
		}
		value[strcspn(value, " \t")] = '\0'; /* the soft limit */
		rc = taut_fact_text(s->host, lines[i].key, value);
	}
	free(text);
	return rc;
}

static int memory(struct shot *s)
{
	static const struct {
		const char *key, *name;
		double factor;
	} lines[] = {{"memory.total_bytes", "MemTotal", 1024},
	    {"memory.huge_pages", "HugePages_Total", 1},
	    {"memory.huge_page_bytes", "Hugepagesize", 1024}};
	char value[TAUT_TEXT_MAX];
	int rc;
	char *text = tt_tree_slurp(s->root, "proc/meminfo", 8192, &rc);

	if (!text)
		return unreadable(s, "memory.total_bytes", "proc/meminfo", rc);
	rc = 0;
	for (size_t i = 0; rc == 0 && i < tt_array_len(lines); i++) {
		if (line_value(text, lines[i].name, value, sizeof(value)))
			rc = taut_fact_number(
			    s->host, lines[i].key, strtod(value, NULL) * lines[i].factor);
		else
			rc = taut_fact_unknown(s->host, lines[i].key, "/proc/meminfo does not say");
	}
	free(text);
	if (rc == 0 && tt_tree_read(s->root, "proc/loadavg", value, sizeof(value)) == 0)
		rc = taut_fact_number(s->host, "load.1m", strtod(value, NULL));
	return rc;
}

static int nic_fact(struct shot *s, const char *what, const char *file, enum how how)
{
	char key[TAUT_NAME_MAX], path[TT_TREE_PATH_MAX];
	struct row row = {key, path, how};

	snprintf(key, sizeof(key), "nic.%s.%s", s->nic, what);
	snprintf(path, sizeof(path), "sys/class/net/%s/%s", s->nic, file);
	return row_read(s, &row);
}

static int nic(void *arg, const char *name)
{
	struct shot *s = arg;
	char key[TAUT_NAME_MAX], path[TT_TREE_PATH_MAX], driver[TAUT_NAME_MAX];
	int rc;

	if (strcmp(name, "lo") == 0 || strcmp(name, "bonding_masters") == 0)
		return 0;
	if (s->nics++ >= TT_SNAPSHOT_NICS_MAX)
		return 0;
	taut_text_set(s->nic, name);
	snprintf(key, sizeof(key), "nic.%s.driver", s->nic);
	snprintf(path, sizeof(path), "sys/class/net/%s/device/driver", name);
	rc = tt_tree_link(s->root, path, driver, sizeof(driver));
	if (rc < 0)
		rc = taut_fact_unknown(s->host, key, "a virtual interface: no device behind it");
	else
		rc = taut_fact_text(s->host, key, driver);
	if (rc == 0)
		rc = nic_fact(s, "state", "operstate", TEXT);
	if (rc == 0)
		rc = nic_fact(s, "mtu", "mtu", NUMBER);
	if (rc == 0)
		rc = nic_fact(s, "speed_mbps", "speed", NUMBER);
	if (rc == 0)
		rc = nic_fact(s, "node", "device/numa_node", NUMBER);
	return rc;
}

static int nics(struct shot *s)
{
	int rc = tt_tree_each(s->root, "sys/class/net", nic, s);

	if (rc < 0 && rc != -ENOMEM)
		return unreadable(s, "nic", "sys/class/net", rc);
	if (rc == 0 && s->nics > TT_SNAPSHOT_NICS_MAX)
		rc = taut_fact_number(s->host, "nic.left_out", s->nics - TT_SNAPSHOT_NICS_MAX);
	return rc;
}

int tt_host_snapshot(const char *root, struct taut_host *out)
{
	static int (*const parts[])(struct shot *) = {os_name, kernel_words, cpu, governor,
	    idle_states, mitigations, irqs, limits, memory, nics};
	struct shot s = {.root = root, .host = out};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < tt_array_len(rows); i++)
		rc = row_read(&s, &rows[i]);
	for (size_t i = 0; rc == 0 && i < tt_array_len(parts); i++)
		rc = parts[i](&s);
	out->known = rc == 0;
	if (rc == 0)
		out->reason[0] = '\0';
	else
		taut_text_set(out->reason, strerror(-rc));
	return rc;
}
