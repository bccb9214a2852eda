/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - what the small benchmarks share. Each is an ordinary socket program of two processes:
 * it starts its own server by executing itself again, so that LD_PRELOAD=libtaut.so or nothing in
 * front of it is the whole difference.
 *
 * A benchmark prints one line for people, or with --json one JSON object on one line. Mistakes in
 * the arguments end with status 2, trouble with the machine with 3, a broken connection with 1.
 */
#ifndef TT_BENCH_BENCH_H
#define TT_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hist.h"

_Noreturn void tt_bench_fail(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Pins the calling thread; a negative core leaves it alone. */
void tt_bench_pin(int core);
/* "A,B" into two core numbers. */
void tt_bench_cores(const char *text, int *a, int *b);
uint64_t tt_bench_number(const char *text);

/*
 * Executes this program again with its own arguments and "--server FD" and reads from it the port
 * that the server listens on. tt_bench_ready() is the other end of that. tt_bench_server_end()
 * waits for it and passes its failure on.
 */
pid_t tt_bench_server_start(char **argv, uint16_t *port);
void tt_bench_ready(int fd, uint16_t port);
void tt_bench_server_end(pid_t pid);

/* A bound IPv4 loopback socket (listening if it is a stream); *port is what the kernel gave. */
int tt_bench_bind(int type, uint16_t *port);
int tt_bench_connect(int type, uint16_t port);
/* Whole blocks on a stream. False: the other end has closed. */
bool tt_bench_send_all(int fd, const void *buf, size_t n);
bool tt_bench_recv_all(int fd, void *buf, size_t n);

/* "p50_ns":..,"p99_ns":..,... as far as the count supports them. */
void tt_bench_print_hist(const struct tt_hist *h);

#endif
