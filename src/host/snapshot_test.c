/* SPDX-License-Identifier: BSD-3-Clause */
/* The snapshot of small recorded hosts, of an empty folder, and of this machine. */
#include <errno.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/snapshot.h"
#include "host/tree.h"

#define PATH_SIZE 1024

static char root[64];

static int setup(void **state)
{
	(void)state;
	strcpy(root, "/tmp/taut-snapshot-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int removed(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(root, removed, 16, FTW_DEPTH | FTW_PHYS);
}

static void folders(char *path)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(path, 0755) < 0)
			assert_int_equal(errno, EEXIST);
		*p = '/';
	}
}

static void put(const char *path, const char *text)
{
	char full[PATH_SIZE];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	folders(full);
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void put_link(const char *path, const char *target)
{
	char full[PATH_SIZE];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	folders(full);
	assert_int_equal(symlink(target, full), 0);
}

static const struct taut_fact *fact(const struct taut_host *h, const char *key)
{
	const struct taut_fact *f = taut_fact_find(h, key);

	if (!f)
		fail_msg("no fact %s", key);
	return f;
}

static void is_text(const struct taut_host *h, const char *key, const char *want)
{
	const struct taut_fact *f = fact(h, key);

	assert_int_equal(f->kind, TAUT_FACT_TEXT);
	assert_string_equal(f->text, want);
}

static void is_number(const struct taut_host *h, const char *key, double want)
{
	const struct taut_fact *f = fact(h, key);

	assert_int_equal(f->kind, TAUT_FACT_NUMBER);
	assert_true(f->number == want);
}

static void is_flag(const struct taut_host *h, const char *key, bool want)
{
	const struct taut_fact *f = fact(h, key);

	assert_int_equal(f->kind, TAUT_FACT_FLAG);
	assert_int_equal(f->flag, want);
}

static void is_unknown(const struct taut_host *h, const char *key, const char *part)
{
	const struct taut_fact *f = fact(h, key);

	assert_int_equal(f->kind, TAUT_FACT_UNKNOWN);
	assert_non_null(strstr(f->text, part));
}

/* A trading host: isolated processors, tuned idle states, two interfaces. */
static void put_tuned_host(void)
{
	put("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
	put("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
	put("proc/cmdline",
	    "root=UUID=secret isolcpus=managed_irq,2-5 nohz_full=2-5 password=hidden "
	    "intel_idle.max_cstate=0\n");
	put("proc/cpuinfo",
	    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) W-2295\n"
	    "flags\t\t: fpu tsc constant_tsc\nbugs\t\t: not a hypervisor\n\n");
	put("sys/devices/system/cpu/online", "0-5\n");
	put("sys/devices/system/cpu/isolated", "2-5\n");
	put("sys/devices/system/cpu/nohz_full", "2-5\n");
	put("sys/devices/system/cpu/smt/active", "0\n");
	put("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state0/disable", "0\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state10/name", "C10\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state10/latency", "133\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state10/disable", "1\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state2/name", "C1\n");
	put("sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "2\n");
	put("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
	put("sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n");
	put("sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "performance\n");
	put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
	put("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n");
	put("proc/irq/24/smp_affinity_list", "0-1\n");
	put("proc/irq/25/smp_affinity_list", "0-5\n");
	put("proc/irq/26/smp_affinity_list", "0-5\n");
	put("proc/irq/26/effective_affinity_list", "1\n");
	put("proc/irq/default_smp_affinity", "03\n");
	put("proc/self/limits",
	    "Limit                     Soft Limit           Hard Limit           Units     \n"
	    "Max locked memory         8388608              8388608              bytes     \n"
	    "Max open files            1024                 1048576              files     \n");
	put("proc/meminfo",
	    "MemTotal:       65536000 kB\nHugePages_Total:      16\nHugepagesize:       2048 kB\n");
	put("proc/loadavg", "0.25 0.10 0.05 1/123 4567\n");
	put("sys/class/net/lo/mtu", "65536\n");
	put("sys/class/net/enp1s0/mtu", "9000\n");
	put("sys/class/net/enp1s0/operstate", "up\n");
	put("sys/class/net/enp1s0/speed", "25000\n");
	put("sys/class/net/enp1s0/device/numa_node", "1\n");
	put_link("sys/class/net/enp1s0/device/driver", "../../../bus/pci/drivers/mlx5_core");
	put("sys/class/net/veth7/mtu", "1500\n");
	put("sys/class/net/veth7/operstate", "down\n");
}

static void test_tuned_host(void **state)
{
	struct taut_host h = {0};

	(void)state;
	put_tuned_host();
	assert_int_equal(tt_host_snapshot(root, &h), 0);
	assert_true(h.known);
	is_text(&h, "kernel.release", "6.1.0-18-amd64");
	is_text(&h, "os.name", "Debian GNU/Linux 12 (bookworm)");
	is_text(
	    &h, "kernel.words", "isolcpus=managed_irq,2-5 nohz_full=2-5 intel_idle.max_cstate=0");
	is_text(&h, "cpu.model", "Intel(R) Xeon(R) W-2295");
	is_number(&h, "cpu.count", 6);
	is_text(&h, "cpu.isolated", "2-5");
	is_flag(&h, "cpu.smt", false);
	is_text(&h, "idle.states", "POLL:0us C1:2us C10:133us(off)");
	is_text(&h, "freq.governor", "performance,powersave");
	is_text(&h, "memory.thp", "madvise");
	is_text(&h, "mitigation.meltdown", "Not affected");
	is_number(&h, "irq.count", 3);
	is_number(&h, "irq.on_isolated", 1);
	is_text(&h, "irq.cpus", "0-1,0-5,1");
	is_text(&h, "limit.nofile", "1024");
	is_unknown(&h, "limit.rtprio", "does not say");
	is_number(&h, "memory.total_bytes", 65536000.0 * 1024);
	is_number(&h, "load.1m", 0.25);
	is_text(&h, "nic.enp1s0.driver", "mlx5_core");
	is_number(&h, "nic.enp1s0.speed_mbps", 25000);
	is_number(&h, "nic.enp1s0.node", 1);
	is_unknown(&h, "nic.veth7.driver", "virtual interface");
	is_unknown(&h, "nic.veth7.speed_mbps", "No such file");
	assert_null(taut_fact_find(&h, "nic.lo.mtu"));
	/* "hypervisor" in another line than flags does not make it a guest. */
	is_flag(&h, "vm.guest", false);
	is_unknown(&h, "vm.dmi_vendor", "/sys/class/dmi/id/sys_vendor");
	taut_host_free(&h);
}

static void test_guest(void **state)
{
	struct taut_host h = {0};

	(void)state;
	put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor lahf_lm\n");
	put("sys/class/dmi/id/sys_vendor", "QEMU\n");
	put("sys/devices/system/cpu/isolated", "\n");
	put("sys/devices/system/cpu/nohz_full", " (null)\n");
	assert_int_equal(tt_host_snapshot(root, &h), 0);
	is_flag(&h, "vm.guest", true);
	is_text(&h, "vm.dmi_vendor", "QEMU");
	is_text(&h, "cpu.isolated", "none");
	is_unknown(&h, "cpu.model", "does not say");
	taut_host_free(&h);
}

static void test_nothing_there(void **state)
{
	struct taut_host h = {0};

	(void)state;
	assert_int_equal(tt_host_snapshot(root, &h), 0);
	assert_true(h.known);
	is_unknown(&h, "kernel.release", "/proc/sys/kernel/osrelease: No such file");
	is_unknown(&h, "cpu.model", "No such file");
	is_unknown(&h, "nic", "No such file");
	taut_host_free(&h);
}

static void test_this_machine(void **state)
{
	struct taut_host h = {0};

	(void)state;
	assert_int_equal(tt_host_snapshot("", &h), 0);
	assert_int_equal(fact(&h, "kernel.release")->kind, TAUT_FACT_TEXT);
	assert_int_equal(fact(&h, "cpu.count")->kind, TAUT_FACT_NUMBER);
	assert_true(fact(&h, "cpu.count")->number >= 1);
	taut_host_free(&h);
}

static void test_lists(void **state)
{
	(void)state;
	assert_true(tt_cpulist_has("0-3,8", 3));
	assert_true(tt_cpulist_has("0-3,8", 8));
	assert_false(tt_cpulist_has("0-3,8", 4));
	assert_false(tt_cpulist_has("", 0));
	assert_false(tt_cpulist_has("none", 0));
	assert_int_equal(tt_cpulist_count("0-3,8"), 5);
	assert_int_equal(tt_cpulist_count("3-"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_tuned_host, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_guest, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_nothing_there, setup, teardown),
	    cmocka_unit_test(test_this_machine),
	    cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
