/* SPDX-License-Identifier: BSD-3-Clause */
#include "shm/link.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Both ends of a link in one process: it offers to its own inbox. */
static struct tt_offer offer_of(const struct tt_slot_ref *ref)
{
	struct tt_offer offer = {.magic = TT_OFFER_MAGIC, .version = TT_SHM_VERSION};

	memcpy(offer.from, tt_inbox_id(), TT_INBOX_ID_BYTES);
	offer.geo = ref->seg->geo;
	offer.slot = ref->in_seg;
	offer.ticket = ref->ticket;
	return offer;
}

/* Withdrawn, an offer may still be read when its slot has become another connection's: it must not take that one's place. */
static void a_withdrawn_offer_takes_nothing(void **state)
{
	struct tt_slot_ref first, second, taken;
	struct tt_offer old, now;
	int fd = -1, none = -1, who;

	(void)state;
	assert_true(tt_link_lock());
	assert_int_equal(tt_inbox_open(), 0);
	assert_int_equal(tt_link_slot_new(tt_inbox_id(), TT_RING_SMALL, &who, &first, &fd), 0);
	assert_true(fd >= 0);
	old = offer_of(&first);
	assert_int_equal(tt_link_segment_take(&old, fd), 0);
	close(fd);
	assert_int_equal(tt_slot_state(&first), TT_SLOT_OFFERED);
	tt_link_slot_release(&first);
	assert_int_equal(tt_link_slot_new(tt_inbox_id(), TT_RING_SMALL, &who, &second, &none), 0);
	assert_int_equal(none, -1);
	assert_int_equal(second.index, first.index);
	now = offer_of(&second);
	assert_int_equal(tt_link_slot_take(&old, getpid(), &who, &taken), -ECANCELED);
	assert_int_equal(tt_slot_state(&second), TT_SLOT_OFFERED);
	assert_int_equal(tt_link_slot_take(&now, getpid(), &who, &taken), 0);
	assert_int_equal(tt_slot_state(&second), TT_SLOT_ACCEPTED);
	assert_int_equal(tt_slot_state(&taken), TT_SLOT_ACCEPTED);
	assert_int_equal(tt_slot_state(&first), TT_SLOT_FREE);
	tt_link_unlock();
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_withdrawn_offer_takes_nothing)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
