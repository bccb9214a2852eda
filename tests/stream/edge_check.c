/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * edge_check - the transcript of what happens to a stream at its edges: a peer that is gone without a word, threads that are
 * cancelled in a call, peeks that wait for all, bytes that change hands between the calls of libc and bare ones.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scene.h"

/* A reset is an error first, and the end of the stream after that; whoever looks at the socket in between must not take it away. */
static void silent_reset(void)
{
	static const char *const how[] = {"blocking", "non-blocking", "after poll", "with bytes before it"};
	struct tt_conn c;

	for (int i = 0; i < 4; i++) {
		tt_conn_open(&c);
		tt_say("%s", how[i]);
		if (i == 1)
			tt_conn_nonblock(&c);
		if (i == 3)
			tt_far_send(&c, 10, 20);
		tt_far_reset_raw(&c, i == 3 ? 60 : 30);
		if (i == 2)
			tt_until(c.fd, POLLIN);
		if (i == 3)
			tt_near_recv(&c, "bytes", 100, 0);
		if (i == 1) {
			char b;

			for (int k = 0; k < 200000; k++)
				if (recv(c.fd, &b, 1, 0) >= 0 || errno != EAGAIN)
					break;
				else if (k > 1000)
					tt_nap_us(100);
			tt_say("recv: %s", tt_errno_word(errno));
		} else {
			tt_near_recv(&c, "recv", 100, 0);
		}
		tt_near_recv(&c, "recv again", 100, 0);
		close(c.fd);
	}
}

static const struct tt_scene scenes[] = {{"silent-reset", silent_reset}};

int main(int argc, char **argv)
{
	return tt_scene_main(argc, argv, scenes, TT_CK_ARRAY(scenes));
}
