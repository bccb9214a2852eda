/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair N: a listener on a port of the kernel's choice and, in a child, a client that exchanges N
 * bytes with it one at a time. Says "PORT CHILD" when all is exchanged; both live, with their
 * sockets open, until the input ends.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 3;
}

static int exchange(int fd, int n, int first)
{
	char c = 'x';

	for (int i = 0; i < n; i++) {
		if (first && send(fd, &c, 1, 0) != 1)
			return fail("send");
		if (recv(fd, &c, 1, 0) != 1)
			return fail("recv");
		if (!first && send(fd, &c, 1, 0) != 1)
			return fail("send");
	}
	return 0;
}

static int client(const struct sockaddr_in *addr, int n)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char c;

	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0)
		return fail("connect");
	if (exchange(fd, n, 1) != 0)
		return 3;
	return recv(fd, &c, 1, 0) == 0 ? 0 : fail("end");
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0), n = argc > 1 ? atoi(argv[1]) : 100, fd,
	    status;
	pid_t child;
	char c;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (struct sockaddr *)&addr, len) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&addr, &len) < 0)
		return fail("listen");
	child = fork();
	if (child < 0)
		return fail("fork");
	if (child == 0) {
		close(listener);
		_exit(client(&addr, n));
	}
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		return fail("accept");
	if (exchange(fd, n, 0) != 0)
		return 3;
	printf("%d %d\n", ntohs(addr.sin_port), child);
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	close(fd);
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 3;
}
