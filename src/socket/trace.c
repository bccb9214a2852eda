/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/trace.h"

#include <unistd.h>

#include "base/log.h"

void tt_trace_line(int fd, const struct tt_stat_sock *row, const char *event, enum tt_reason reason)
{
	char local[TT_ADDR_TEXT_MAX], remote[TT_ADDR_TEXT_MAX];
	bool known = row->remote.sin6_port != 0;

	tt_addr_text(&row->local, local);
	tt_addr_text(&row->remote, remote);
	tt_log_line(TT_LOG_NOTE, "[%d] fd %d %s %s%s%s: %s%s%s%s%s%s", getpid(), fd,
	    row->type == SOCK_STREAM ? "tcp" : "udp", local, known ? " > " : "",
	    known ? remote : "", event, reason ? ": " : "", reason ? tt_reason_text(reason) : "",
	    reason ? " (" : "", reason ? tt_reason_word(reason) : "", reason ? ")" : "");
}
