/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_offer.c - what another process of the user can hand us: any message to the inbox with any descriptors, and any bytes as
 * the directory's file. A slot that is taken lies inside what was mapped, to its last byte, which can be read and written.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "slot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int inbox_dial(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n = 6;

	memcpy(addr.sun_path + 1, "taut-", 5);
	for (size_t i = 0; i < TT_INBOX_ID_BYTES; i++)
		n += snprintf(addr.sun_path + n, 3, "%02x", tt_inbox_id()[i]);
	TT_ASSERT(fd >= 0 &&
		  connect(fd, (void *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) == 0);
	return fd;
}

/* A file of the size that the message names, more or less, with seals or without. */
static int file_get(struct input *in, const struct tt_seg_geo *geo)
{
	uint8_t how = (uint8_t)in_take(in, 1);
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t bytes = tt_seg_bytes(geo);

	TT_ASSERT(fd >= 0);
	if (how % 4 == 1)
		bytes = (size_t)in_take(in, 3);
	TT_ASSERT(ftruncate(fd, (off_t)bytes) == 0);
	if (how & 16) { /* every word says "offered" */
		static uint32_t ones[2048];

		for (size_t i = 0; i < tt_array_len(ones); i++)
			ones[i] = TT_SLOT_OFFERED;
		for (size_t at = 0; at < bytes && at < 1 << 18; at += sizeof(ones))
			(void)!pwrite(fd, ones, tt_min(sizeof(ones), bytes - at), (off_t)at);
	}
	if (how % 8 != 2)
		TT_ASSERT(fcntl(fd, F_ADD_SEALS, how % 8 == 3 ? F_SEAL_SHRINK : SEALS) == 0);
	return fd;
}

static void put(int conn, const struct tt_offer *offer, size_t n, const int *fds, size_t count)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {0};
	struct iovec v = {(void *)(uintptr_t)offer, n};
	struct msghdr msg = {.msg_iov = &v, .msg_iovlen = 1};

	if (count) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	(void)sendmsg(conn, &msg, MSG_NOSIGNAL);
}

/* As attach.c does. */
static void taken(const struct tt_offer *offer, int fd)
{
	struct tt_slot_ref ref;
	static int owner;

	if (fd >= 0)
		(void)!tt_link_segment_take(offer, fd);
	if (tt_link_slot_take(offer, 1, &owner, &ref))
		return;
	TT_ASSERT((uint8_t *)ref.slot >= ref.seg->base && (uint8_t *)(ref.slot + 1) <= ref.seg->base + ref.seg->bytes);
	for (unsigned int dir = 0; dir < 2; dir++)
		TT_ASSERT(tt_seg_ring(ref.seg, ref.in_seg, dir) + ref.seg->geo.ring_bytes <= ref.seg->base + ref.seg->bytes);
	TT_ASSERT(ref.index < TT_LINK_SLOTS_MAX);
	for (unsigned int dir = 0; dir < 2; dir++)
		tt_seg_ring(ref.seg, ref.in_seg, dir)[ref.seg->geo.ring_bytes - 1]++;
	tt_link_group(ref.link, 1, TT_LINK_GROUPS - 1)->word.v++;
	tt_link_slot_release(&ref);
}

static void offer_try(struct input *in)
{
	struct tt_offer offer, got;
	uint8_t how = (uint8_t)in_take(in, 1);
	size_t n = tt_min(in->left, sizeof(offer)), count = how % 5;
	int fds[5], conn, fd = -1, pid;

	memset(&offer, 0, sizeof(offer));
	memcpy(&offer, in->at, n);
	in->at += n;
	in->left -= n;
	if (how & 8) {
		offer.magic = TT_OFFER_MAGIC;
		offer.version = TT_SHM_VERSION;
		offer.geo.seg %= how & 16 ? 1 : 70;
		offer.geo.slots %= 40;
		offer.geo.first_slot %= 200;
		offer.geo.ring_bytes = 1u << (offer.geo.ring_bytes % 27);
		offer.slot %= 50;
		offer.ticket = 0; /* as the words of file_get() say */
		memset(offer.from, 0, sizeof(offer.from) - 1);
	}
	for (size_t i = 0; i < count; i++)
		fds[i] = file_get(in, &offer.geo);
	TT_ASSERT(tt_inbox_open() == 0);
	conn = inbox_dial();
	put(conn, &offer, how & 32 ? n / 2 : how & 64 ? sizeof(offer) : n, fds, count);
	if (tt_inbox_take(&got, &fd, &pid) == 0) {
		TT_ASSERT(got.magic == TT_OFFER_MAGIC && got.version == TT_SHM_VERSION && pid == getpid());
		taken(&got, fd);
		if (fd >= 0)
			close(fd);
	}
	close(conn);
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
}

static void hints_try(struct input *in)
{
	static char dir[] = "/tmp/taut-fuzz-XXXXXX";
	static bool made;
	char path[64];
	uint8_t id[TT_INBOX_ID_BYTES];
	uint64_t netns = in_take(in, 1), cookie = in_take(in, 1);
	int fd;

	if (!made)
		TT_ASSERT(mkdtemp(dir));
	made = true;
	TT_ASSERT(tt_hints_set_folder(dir) == 0);
	snprintf(path, sizeof(path), "%s/hints", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	TT_ASSERT(fd >= 0);
	for (off_t at = 0; at < 1 << 22; at += 1 << 16)
		(void)!pwrite(fd, in->at, in->left, at);
	close(fd);
	(void)!tt_hint_lookup(netns, cookie, id, NULL);
	memset(id, 7, sizeof(id));
	TT_ASSERT(tt_hint_publish(netns, cookie, id) == 0);
	memset(id, 0, sizeof(id));
	TT_ASSERT(tt_hint_lookup(netns, cookie, id, NULL) == 0 && id[3] == 7);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	slot_start();
	if (in_take(&in, 1) % 16 == 0) {
		hints_try(&in);
		return 0;
	}
	for (int i = 0; in.left && i < 8; i++)
		offer_try(&in);
	/* A new process at each input; what the last one made is given back in time. */
	tt_link_fork_child();
	tt_link_sweep();
	return 0;
}
