/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reason.c - what the page holds as numbers, as words: for the writer's own lines and for `taut
 * stat`.
 */
#include <arpa/inet.h>

#include "base/fmt.h"
#include "socket/statpage.h"
#include "socket/trace.h"

const char *tt_reason_word(unsigned int reason)
{
	static const char *const words[] = {
#define X(name, word, text) word,
	    TT_REASONS(X)
#undef X
	};

	return reason < tt_array_len(words) ? words[reason] : "unknown";
}

const char *tt_reason_text(unsigned int reason)
{
	static const char *const texts[] = {
#define X(name, word, text) text,
	    TT_REASONS(X)
#undef X
	};

	return reason < tt_array_len(texts) ? texts[reason]
					    : "a reason that this version does not know";
}

void tt_addr_text(const struct sockaddr_in6 *addr, char out[TT_ADDR_TEXT_MAX])
{
	const unsigned char *b = addr->sin6_addr.s6_addr;
	unsigned int port = ntohs(addr->sin6_port);
	char text[INET6_ADDRSTRLEN] = "";

	if (port == 0) {
		tt_fmt(out, TT_ADDR_TEXT_MAX, "-");
	} else if (IN6_IS_ADDR_V4MAPPED(&addr->sin6_addr)) {
		tt_fmt(out, TT_ADDR_TEXT_MAX, "%u.%u.%u.%u:%u", b[12], b[13], b[14], b[15], port);
	} else {
		inet_ntop(AF_INET6, b, text, sizeof(text));
		tt_fmt(out, TT_ADDR_TEXT_MAX, "[%s]:%u", text, port);
	}
}
