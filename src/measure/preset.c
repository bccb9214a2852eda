/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/preset.h"

static const struct tt_compare_side both_profiles[] = {
    {"kernel", ""},
    {"taut", "{taut} run --"},
    {"taut latency", "{taut} run --profile latency --"},
};
static const struct tt_compare_side default_profile[] = {
    {"kernel", ""},
    {"taut", "{taut} run --"},
};

#define SOCKPERF(role, more) "sockperf " role " --ip 127.0.0.1 --port {port} --msg-size 14" more
/*
 * sockperf keeps a record for each message and makes room for 600,000 a second, unless it is told a
 * rate: a round trip below 1.67 us ends it ("_seqN > m_maxSequenceNo"). The rate given here is far
 * above what a ping-pong reaches.
 */
#define PING_PONG(more) SOCKPERF("pp", " --mps 5000000 --time {time}" more)

static const struct tt_compare_test sockperf[] = {
    {"udp", SOCKPERF("sr", ""), PING_PONG(""), TT_PROTO_UDP},
    {"tcp", SOCKPERF("sr", " --tcp"), PING_PONG(" --tcp"), TT_PROTO_TCP},
};
static const struct tt_compare_test sockperf_spin[] = {
    {"udp", SOCKPERF("sr", " --nonblocked"), PING_PONG(" --nonblocked"), TT_PROTO_UDP},
    {"tcp", SOCKPERF("sr", " --tcp --nonblocked"), PING_PONG(" --tcp --nonblocked"), TT_PROTO_TCP},
};

#define REDIS "redis-server --port {port} --bind 127.0.0.1 --save '' --appendonly no --daemonize no"
/* {time} counts the zeros' leader: so many hundred thousand, or ten thousand, requests. */
#define REQUESTS(n, more)                                                                          \
	"redis-benchmark -h 127.0.0.1 -p {port} -t get,set --csv -n {time}" n " " more

static const struct tt_compare_test redis[] = {
    {"-c 1", REDIS, REQUESTS("0000", "-c 1"), TT_PROTO_TCP},
    {"-c 50", REDIS, REQUESTS("00000", "-c 50"), TT_PROTO_TCP},
    {"-c 50 -P 16", REDIS, REQUESTS("00000", "-c 50 -P 16"), TT_PROTO_TCP},
};

#define IPERF3(more) "iperf3 -c 127.0.0.1 -p {port} -t {time} -J" more

static const struct tt_compare_test iperf3[] = {
    {"default", "iperf3 -s -1 -p {port}", IPERF3(""), TT_PROTO_TCP},
    {"-R", "iperf3 -s -1 -p {port}", IPERF3(" -R"), TT_PROTO_TCP},
    {"-l 1M", "iperf3 -s -1 -p {port}", IPERF3(" -l 1M"), TT_PROTO_TCP},
    {"-l 1M -R", "iperf3 -s -1 -p {port}", IPERF3(" -l 1M -R"), TT_PROTO_TCP},
};

#define SIDES(a) .sides = a, .sides_count = tt_array_len(a)
#define TESTS(a) .tests = a, .tests_count = tt_array_len(a)

const struct tt_preset tt_presets[] = {
    {"sockperf", "ping-pong, 14 bytes, UDP and TCP, blocking sockets", "sockperf", "sockperf",
	SIDES(both_profiles), TESTS(sockperf)},
    {"sockperf-spin", "the same against kernel sockets that spin", "sockperf", "sockperf",
	SIDES(both_profiles), TESTS(sockperf_spin)},
    {"redis", "redis-benchmark get and set: 1 client, 50 clients, pipelined", "redis-benchmark",
	"redis-tools redis-server", SIDES(default_profile), TESTS(redis)},
    {"iperf3", "iperf3 TCP, both ways, default block and 1 MB", "iperf3", "iperf3",
	SIDES(default_profile), TESTS(iperf3)},
};

const char *const tt_preset_names[] = {"sockperf", "sockperf-spin", "redis", "iperf3", NULL};

_Static_assert(tt_array_len(tt_presets) + 1 == tt_array_len(tt_preset_names), "a name per preset");
