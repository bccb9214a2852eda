/* SPDX-License-Identifier: BSD-3-Clause */
/* rawline - prints the round trip of a cache line between two processors: the floor beside which
 * every figure stands. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "measure/rawline.h"

int main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"cores", 1, NULL, 'C'}, {"json", 0, NULL, 'j'}, {NULL, 0, NULL, 0}};
	int c, a = 0, b = 1, rc;
	struct tt_rawline raw;
	bool json = false;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) >= 0) {
		if (c == 'C')
			tt_bench_cores(optarg, &a, &b);
		else if (c == 'j')
			json = true;
		else
			tt_bench_fail(2, "usage: rawline [--cores A,B] [--json]");
	}
	rc = tt_rawline(a, b, &raw);
	if (rc < 0)
		tt_bench_fail(3, "no cache line crosses between processors %d and %d: %s", a, b,
		    strerror(-rc));
	printf(json ? "{\"bench\":\"rawline\",\"p50_ns\":%.1f,\"min_ns\":%.1f,\"samples\":%u}\n"
		    : "cache line round trip: p50 %.1f ns, min %.1f ns, %u samples\n",
	    raw.p50_ns, raw.min_ns, raw.samples);
	return 0;
}
