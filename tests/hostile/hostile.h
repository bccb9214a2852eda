/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostile.h - private to hostile_check: one process's end of a case, and the thread that spoils what the ends share.
 */
#ifndef TT_TESTS_HOSTILE_H
#define TT_TESTS_HOSTILE_H

#include "../stream/check.h"

#define TT_HS_CONNS 3

/* What is scribbled on; a case takes one kind, a few, or all. */
enum tt_spoil {
	TT_SPOIL_TAIL,
	TT_SPOIL_INLINE,
	TT_SPOIL_KPUB,
	TT_SPOIL_MARK,
	TT_SPOIL_KPEND,
	TT_SPOIL_FIN,
	TT_SPOIL_HEAD,
	TT_SPOIL_KCONS,
	TT_SPOIL_GOV,
	TT_SPOIL_GONE,
	TT_SPOIL_BACK,
	TT_SPOIL_ROOM,
	TT_SPOIL_WORD,
	TT_SPOIL_CPU,
	TT_SPOIL_STATE,
	TT_SPOIL_DONE,
	TT_SPOIL_GROUP_WORD,
	TT_SPOIL_READY,
	TT_SPOIL_RING,
	TT_SPOIL_ANY,
	TT_SPOIL_KINDS,
};
extern const char *const tt_spoil_word[TT_SPOIL_KINDS];

enum tt_hs_wait { TT_HS_BLOCK, TT_HS_TIMEO, TT_HS_ASK, TT_HS_POLL, TT_HS_SELECT, TT_HS_LEVEL, TT_HS_EDGE, TT_HS_WAITS };

struct tt_hs_order {
	uint64_t seed;
	uint64_t kinds; /* bits of enum tt_spoil */
	uint32_t run_us;
	uint32_t pause_us; /* between two strokes, at most */
	uint16_t tcp_port, udp_port; /* of the other end; tcp_port 0: it connects to us */
	uint16_t honest_port;
	uint8_t hostile;
	uint8_t end; /* of the hostile process: 0 closes, 1 exits, 2 is killed */
	uint8_t stop;
};

struct tt_hs_answer {
	enum { TT_HS_PORTS = 1, TT_HS_RUNS, TT_HS_ENDED } what;
	uint16_t tcp_port, udp_port;
	int ends[TT_HS_CONNS]; /* errno, EPIPE for the end of the stream */
	uint64_t bytes;
	uint64_t rounds;       /* with the honest process */
	uint64_t strokes;
};

/* Ports first (tt_hs_open), then the case; end() lets its threads finish, which they must. */
void tt_hs_open(struct tt_hs_answer *a);
void tt_hs_run(const struct tt_hs_order *o);
void tt_hs_end(struct tt_hs_answer *a);

/* Echoes whatever comes, for ever. */
void tt_hs_honest(int listener);

/* The segments that this process shares, as its own mappings show them. Answers how many. */
#define TT_HS_SEGS 16
struct tt_hs_seg {
	unsigned char *base;
	size_t bytes;
	uint32_t seg, slots, ring_bytes;
};
int tt_segs_find(struct tt_hs_seg *segs);
size_t tt_segs_slots_at(const struct tt_hs_seg *g);

/* Strokes until *stop; answers how many hit memory that was shared. */
uint64_t tt_scribble(const struct tt_hs_order *o, const _Atomic bool *stop);

#endif
