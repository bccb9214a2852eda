/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/rules.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];
static char said[8192];

static void say(void *arg, const char *line)
{
	(void)arg;
	assert_true(strlen(said) + strlen(line) + 2 < sizeof(said));
	strcat(strcat(said, line), "\n");
}

static int load(const char *text, size_t size)
{
	int fd, wrong;

	strcpy(path, "/tmp/taut-rules-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	close(fd);
	said[0] = '\0';
	wrong = tt_rules_load(path, say, NULL);
	unlink(path);
	return wrong;
}

static void good(const char *text)
{
	if (load(text, strlen(text)) != 0)
		fail_msg("%s", said);
}

/* "tcp-server LOCAL LOCAL-PORT REMOTE REMOTE-PORT" asked of the rules. */
static bool allowed(
    const char *kind, const char *local, unsigned int lport, const char *remote, unsigned int rport)
{
	int family = strchr(local, ':') ? AF_INET6 : AF_INET;
	uint8_t l[16], r[16];

	assert_int_equal(inet_pton(family, local, l), 1);
	assert_int_equal(inet_pton(family, remote, r), 1);
	return tt_rules_match(strstr(kind, "server") || strstr(kind, "receiver"),
	    kind[0] == 't' ? IPPROTO_TCP : IPPROTO_UDP, family, l, htons((uint16_t)lport), r,
	    htons((uint16_t)rport));
}

static void test_first_wins(void **state)
{
	(void)state;
	good("accelerate tcp-server 127.0.0.1:22\nkernel tcp-server *:22 # ssh\n");
	assert_int_equal(tt_rules_count, 2);
	assert_true(allowed("tcp-server", "127.0.0.1", 22, "127.0.0.1", 40000));
	assert_false(allowed("tcp-server", "127.0.0.2", 22, "127.0.0.1", 40000));
	assert_false(allowed("tcp-server", "::1", 22, "::1", 40000));
	/* The client's end of the same connection is another kind; none fits: accelerated. */
	assert_true(allowed("tcp-client", "127.0.0.2", 40000, "127.0.0.2", 22));
	assert_true(allowed("tcp-server", "127.0.0.1", 23, "127.0.0.1", 22));
}

static void test_places(void **state)
{
	(void)state;
	good("kernel udp 10.1.128.0/17:5000-5010");
	assert_false(allowed("udp-sender", "1.1.1.1", 1, "10.1.128.0", 5000));
	assert_false(allowed("udp-receiver", "10.1.255.255", 5010, "1.1.1.1", 1));
	assert_true(allowed("udp-sender", "1.1.1.1", 1, "10.1.127.255", 5000));
	assert_true(allowed("udp-sender", "1.1.1.1", 1, "10.1.128.0", 5011));
	assert_true(allowed("udp-sender", "1.1.1.1", 1, "10.1.128.0", 4999));
	assert_true(allowed("tcp-client", "1.1.1.1", 1, "10.1.128.0", 5000));
	good("kernel any [fd00::]/8\nkernel any fe80::1/128\n");
	assert_false(allowed("tcp-client", "::1", 1, "fdff::1", 5000));
	assert_false(allowed("udp-receiver", "fe80::1", 1, "::1", 5000));
	assert_true(allowed("udp-receiver", "fe80::2", 1, "::1", 5000));
	assert_true(allowed("tcp-client", "::1", 1, "fc00::1", 5000));
	assert_true(allowed("tcp-client", "1.1.1.1", 1, "253.0.0.0", 5000));
	good("kernel tcp-client [::1]:80 [::1]:100-200\n");
	assert_false(allowed("tcp-client", "::1", 150, "::1", 80));
	assert_true(allowed("tcp-client", "::1", 201, "::1", 80));
	/* v4-mapped: the flow is told as IPv4, the rule may name either form. */
	good("kernel any [::ffff:10.1.0.0]/112:80\n");
	assert_false(allowed("tcp-client", "1.1.1.1", 1, "10.1.2.3", 80));
	assert_true(allowed("tcp-client", "1.1.1.1", 1, "10.2.2.3", 80));
	good("kernel any ::ffff:10.1.2.3\n");
	assert_false(allowed("tcp-client", "1.1.1.1", 1, "10.1.2.3", 80));
	assert_true(allowed("tcp-client", "1.1.1.1", 1, "10.1.2.4", 80));
	good("kernel any 0.0.0.0/0\n");
	assert_false(allowed("tcp-client", "1.1.1.1", 1, "2.2.2.2", 2));
	assert_true(allowed("tcp-client", "::1", 1, "::1", 2));
}

static void test_program(void **state)
{
	(void)state;
	good("program nginx*\nkernel any *\nprogram test_config_r?l*\nkernel udp *\nprogram *\n"
	     "kernel tcp *:1\n");
	assert_int_equal(tt_rules_count, 2);
	assert_false(allowed("udp-sender", "1.1.1.1", 1, "1.1.1.1", 1));
	assert_false(allowed("tcp-client", "1.1.1.1", 1, "1.1.1.1", 1));
	assert_true(allowed("tcp-client", "1.1.1.1", 1, "1.1.1.1", 2));
}

static void wrong(const char *text, const char *want)
{
	char expect[512];

	assert_int_equal(load(text, strlen(text)), 1);
	snprintf(expect, sizeof(expect), "%s%s", path, want);
	if (strncmp(said, expect, strlen(expect)) != 0)
		fail_msg("said \"%s\", not \"%s\"", said, expect);
}

static void test_mistakes(void **state)
{
	static const char *const places[] = {"1.2.3", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:9-8",
	    "1.2.3.4/33", "*/8", "[::1", "[::1]x", "::1/129", "1.2.3.4:1-", "host", "1.2.3.4/", "::ffff:1.2.3.4/95", ""};

	(void)state;
	wrong("\n# x\nkernl tcp *\n",
	    ":3: \"kernl\" is not accelerate, kernel or program; did you mean kernel?\n");
	wrong("kernel tcp-sever *",
	    ":1: \"tcp-sever\" is not one of any, tcp, tcp-server, tcp-client, "
	    "udp, udp-receiver, udp-sender; did you mean tcp-server?\n");
	wrong("kernel tcp", ":1: \"kernel\" takes a kind");
	wrong("kernel tcp * * *", ":1: \"*\" is one word too many");
	wrong("program", ":1: \"program\" takes one pattern");
	for (size_t i = 0; places[i][0]; i++) {
		char line[80], want[80];

		snprintf(line, sizeof(line), "kernel tcp * %s", places[i]);
		snprintf(want, sizeof(want), ":1: \"%s\" is not an address", places[i]);
		wrong(line, want);
		assert_int_equal(tt_rules_count, 0);
	}
	/* The good lines of a bad file hold. */
	wrong("kernel tcp *\nrubbish\nkernel udp *", ":2: \"rubbish\" is not");
	assert_int_equal(tt_rules_count, 2);
}

static void test_limits(void **state)
{
	static char big[TT_RULES_BYTES_MAX + 100];
	size_t len = 0;

	(void)state;
	for (unsigned int i = 0; i < TT_RULES_MAX + 2; i++)
		len += (size_t)sprintf(big + len, "kernel tcp *:%u\n", i);
	assert_int_equal(load(big, len), 2);
	assert_int_equal(tt_rules_count, TT_RULES_MAX);
	memset(big, '\n', sizeof(big));
	assert_int_equal(load(big, sizeof(big)), 1);
	assert_non_null(strstr(said, "longer than"));
	said[0] = '\0';
	assert_int_equal(tt_rules_load("/nonexistent/rules", say, NULL), 1);
	assert_string_equal(
	    said, "/nonexistent/rules: the rules can't be read: No such file or directory\n");
	said[0] = '\0';
	assert_int_equal(tt_rules_load("/", say, NULL), 1);
	assert_non_null(strstr(said, "Is a directory"));
	assert_int_equal(tt_rules_load("", say, NULL), 0);
	assert_int_equal(load("kernel tcp *\0kernel udp *", 25), 1);
	assert_non_null(strstr(said, "zero byte"));
	/* Any bytes are lines with mistakes, or none. */
	for (unsigned int seed = 0; seed < 300; seed++) {
		for (size_t i = 0; i < 200; i++)
			big[i] =
			    "kernel tcp *\n/:[]-9.\0#\xff program"[(seed * 31 + i * i * 7 + i) %
								   31];
		load(big, 200);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_first_wins),
	    cmocka_unit_test(test_places),
	    cmocka_unit_test(test_program),
	    cmocka_unit_test(test_mistakes),
	    cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
