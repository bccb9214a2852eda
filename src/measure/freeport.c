/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/freeport.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Binds a socket of both families (IPv4 alone where IPv6 is off) to *port, 0 for any. Returns it.
 */
static int bound(int type, in_port_t *port)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(*port)};
	struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(*port)};
	struct sockaddr_storage got;
	socklen_t len = sizeof(got);
	int rc, off = 0, fd = socket(AF_INET6, type | SOCK_CLOEXEC, 0);

	if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
	    bind(fd, (struct sockaddr *)&six, sizeof(six)) == 0)
		goto out;
	rc = errno;
	if (fd >= 0)
		close(fd);
	if (rc == EADDRINUSE)
		return -rc;
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&four, sizeof(four)) < 0)
		goto fail;
out:
	if (getsockname(fd, (struct sockaddr *)&got, &len) < 0)
		goto fail;
	memcpy(&six, &got, tt_min(sizeof(six), (size_t)len));
	*port = ntohs(six.sin6_port); /* at the same place in both families */
	return fd;
fail:
	rc = -errno;
	close(fd);
	return rc;
}

int tt_free_port(unsigned int *port)
{
	int rc = -EADDRINUSE;

	for (int i = 0; i < TT_FREE_PORT_TRIES && rc == -EADDRINUSE; i++) {
		in_port_t p = 0;
		int tcp = bound(SOCK_STREAM, &p), udp;

		if (tcp < 0)
			return tcp;
		udp = bound(SOCK_DGRAM, &p);
		close(tcp);
		rc = udp < 0 ? udp : 0;
		if (udp >= 0) {
			close(udp);
			*port = p;
		}
	}
	return rc;
}
