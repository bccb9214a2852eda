/* SPDX-License-Identifier: BSD-3-Clause */
#include "stream_opt.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

const char *const tt_sc_pattern_word[P_COUNT] = {"up", "down", "request-reply", "loop", "threads"};
const char *const tt_sc_ending_word[END_COUNT] = {
    "shutdown", "client-closes", "server-closes", "client-abrupt", "server-abrupt"};

struct tt_sc_opts tt_sc = {.conns = 200,
    .bytes = 256 << 10,
    .workers = 2,
    .limit_s = 30,
    .pattern = -1,
    .wait = -1,
    .child_fd = -1,
    .end = {.unseen_tx_pct = 0,
	.unseen_rx = TT_UNSEEN_RX_FIRST,
	.pause_us = 3000,
	.more = true,
	.peek = true}};

static const char usage_text[] =
    "usage: stream_check [options]\n"
    "  --conns N            connections in all (200)\n"
    "  --seed N             seed of the run (from the clock)\n"
    "  --only I             only connection I of that seed\n"
    "  --mode M             procs, threads, single (procs)\n"
    "  --workers N          connections at a time (2)\n"
    "  --bytes N            most bytes per direction of a connection (262144)\n"
    "  --family F           4, 6, mapped (4)\n"
    "  --pattern P          up, down, request-reply, loop, threads (drawn)\n"
    "  --wait W             block, timeo, dontwait, poll, ppoll, select, epoll-lt, epoll-et,\n"
    "                       epoll-oneshot, yield (drawn)\n"
    "  --unseen-writes PCT  share of sends by bare system calls (0: they can't be put in order, "
    "see docs)\n"
    "  --unseen-reads R     none, first (before the first seen read and after fdopen), any "
    "(first)\n"
    "  --pause-pct PCT      chance of a nap before a call (drawn per end: 0, 2 or 10)\n"
    "  --pause-us N         longest nap; 0 = never (3000)\n"
    "  --abrupt             some connections end by reset or close with unread bytes\n"
    "  --signals MS         a signal every MS milliseconds, without SA_RESTART\n"
    "  --plain              read() and write() alone, no flags, no naps\n"
    "  --limit-s N          a standstill of N seconds is a hang (30)\n";

static int word_index(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return i;
	fprintf(stderr, "stream_check: unknown word %s\n%s", word, usage_text);
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0') {
		fprintf(stderr, "stream_check: %s is not a number\n%s", text, usage_text);
		exit(2);
	}
	return v;
}

static void option(int c, const char *arg)
{
	static const char *const modes[] = {"procs", "threads", "single"};
	static const char *const unseen[] = {"none", "first", "any"};

	switch (c) {
	case 'c':
		tt_sc.conns = number(arg);
		break;
	case 's':
		tt_sc.seed = number(arg);
		break;
	case 'o':
		tt_sc.only = number(arg);
		tt_sc.has_only = true;
		break;
	case 'm':
		tt_sc.mode = (enum mode)word_index(arg, modes, 3);
		break;
	case 'w':
		tt_sc.workers = number(arg);
		break;
	case 'b':
		tt_sc.bytes = number(arg);
		break;
	case 'f':
		if (!tt_family_parse(arg, &tt_sc.family))
			exit(2);
		break;
	case 'p':
		tt_sc.pattern = word_index(arg, tt_sc_pattern_word, P_COUNT);
		break;
	case 'W':
		tt_sc.wait = word_index(arg, tt_wait_word, TT_WAIT_COUNT);
		break;
	case 'u':
		tt_sc.end.unseen_tx_pct = (unsigned int)number(arg);
		break;
	case 'r':
		tt_sc.end.unseen_rx = (enum tt_unseen_rx)word_index(arg, unseen, 3);
		break;
	case 'n':
		tt_sc.end.pause_pct = (unsigned int)number(arg);
		break;
	case 'N':
		tt_sc.end.pause_us = (unsigned int)number(arg);
		break;
	case 'a':
		tt_sc.abrupt = true;
		break;
	case 'S':
		tt_sc.signals_ms = (unsigned int)number(arg);
		tt_sc.end.signals = tt_sc.signals_ms > 0;
		break;
	case 'P':
		tt_sc.end.plain = true;
		tt_sc.end.unseen_tx_pct = 0;
		tt_sc.end.unseen_rx = TT_UNSEEN_RX_NONE;
		tt_sc.end.pause_us = 0;
		break;
	case 'l':
		tt_sc.limit_s = (unsigned int)number(arg);
		break;
	case 'C':
		tt_sc.child_fd = (int)number(arg);
		break;
	default:
		fputs(usage_text, stderr);
		exit(2);
	}
}

void tt_sc_parse(int argc, char **argv)
{
	static const struct option longs[] = {{"conns", 1, NULL, 'c'}, {"seed", 1, NULL, 's'},
	    {"only", 1, NULL, 'o'}, {"mode", 1, NULL, 'm'}, {"workers", 1, NULL, 'w'},
	    {"bytes", 1, NULL, 'b'}, {"family", 1, NULL, 'f'}, {"pattern", 1, NULL, 'p'},
	    {"wait", 1, NULL, 'W'}, {"unseen-writes", 1, NULL, 'u'}, {"unseen-reads", 1, NULL, 'r'},
	    {"pause-pct", 1, NULL, 'n'}, {"pause-us", 1, NULL, 'N'}, {"abrupt", 0, NULL, 'a'},
	    {"signals", 1, NULL, 'S'}, {"plain", 0, NULL, 'P'}, {"limit-s", 1, NULL, 'l'},
	    {"server-child", 1, NULL, 'C'}, {NULL, 0, NULL, 0}};
	int c;

	tt_sc.seed = tt_now_ns();
	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0)
		option(c, optarg);
	if (optind < argc || tt_sc.workers < 1 || tt_sc.workers > TT_SC_WORKERS_MAX ||
	    tt_sc.bytes < 1 || tt_sc.conns < 1)
		option('?', NULL);
	tt_rerun_set(argc, argv, tt_sc.seed);
}
