/* SPDX-License-Identifier: BSD-3-Clause */
#include "measure/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TCP_LISTEN_STATE 0x0a
#define UDP_UNCONNECTED_STATE 0x07

/* state and session of one process from /proc/PID/stat. The name in brackets may hold anything,
 * brackets too. */
static bool stat_of(const char *pid, char *state, pid_t *session)
{
	char path[300], buf[512], *p;
	FILE *f;
	size_t n;
	int parent, group, its;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(buf, 1, sizeof(buf) - 1, f);
	fclose(f);
	buf[n] = '\0';
	p = strrchr(buf, ')');
	if (!p || sscanf(p + 1, " %c %d %d %d", state, &parent, &group, &its) != 4)
		return false;
	*session = its;
	return true;
}

typedef int pid_fn(void *arg, const char *pid);

static int session_each(pid_t session, pid_fn *fn, void *arg)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int rc = 0;

	if (!dir)
		return -errno;
	while (rc == 0 && (e = readdir(dir))) {
		pid_t its;
		char state;

		if (e->d_name[strspn(e->d_name, "0123456789")] != '\0')
			continue;
		if (stat_of(e->d_name, &state, &its) && its == session && state != 'Z' &&
		    state != 'X')
			rc = fn(arg, e->d_name);
	}
	closedir(dir);
	return rc;
}

static int found_one(void *arg, const char *pid)
{
	(void)arg;
	(void)pid;
	return 1;
}

bool tt_procfs_session_alive(pid_t session)
{
	return session_each(session, found_one, NULL) != 0;
}

static int kill_one(void *arg, const char *pid)
{
	const int *signal = arg;

	kill((pid_t)strtol(pid, NULL, 10), *signal);
	return 0;
}

void tt_procfs_session_kill(pid_t session, int signal)
{
	(void)session_each(session, kill_one, &signal);
}

struct search {
	enum tt_proto proto;
	unsigned int port;
	unsigned long inodes[TT_PROCFS_SOCKETS_MAX];
	size_t len;
};

static void inodes_of(struct search *s, const char *pid)
{
	char path[300], target[64];
	struct dirent *e;
	DIR *dir;

	s->len = 0;
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir)) && s->len < TT_PROCFS_SOCKETS_MAX) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		if (n <= 0)
			continue;
		target[n] = '\0';
		if (sscanf(target, "socket:[%lu]", &s->inodes[s->len]) == 1)
			s->len++;
	}
	if (dir)
		closedir(dir);
}

/* A line: "sl: local:port remote:port state queues timer retransmits uid timeout inode ..." */
static bool table_has(const struct search *s, const char *pid, const char *table, unsigned int want)
{
	char path[300], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/net/%s", pid, table);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		unsigned int port, state;
		unsigned long inode;

		if (sscanf(line,
			" %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
			&port, &state, &inode) != 3)
			continue;
		if (state != want || port == 0 || (s->port && port != s->port))
			continue;
		for (size_t i = 0; i < s->len && !found; i++)
			found = s->inodes[i] == inode;
	}
	fclose(f);
	return found;
}

static int pid_listens(void *arg, const char *pid)
{
	static const struct {
		const char *table;
		enum tt_proto proto;
		unsigned int state;
	} tables[] = {{"tcp", TT_PROTO_TCP, TCP_LISTEN_STATE},
	    {"tcp6", TT_PROTO_TCP, TCP_LISTEN_STATE}, {"udp", TT_PROTO_UDP, UDP_UNCONNECTED_STATE},
	    {"udp6", TT_PROTO_UDP, UDP_UNCONNECTED_STATE}};
	struct search *s = arg;

	inodes_of(s, pid);
	for (size_t i = 0; s->len && i < tt_array_len(tables); i++) {
		if (s->proto != TT_PROTO_ANY && s->proto != tables[i].proto)
			continue;
		if (table_has(s, pid, tables[i].table, tables[i].state))
			return 1;
	}
	return 0;
}

int tt_procfs_listens(pid_t session, enum tt_proto proto, unsigned int port)
{
	struct search *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->proto = proto;
	s->port = port;
	rc = session_each(session, pid_listens, s);
	free(s);
	return rc;
}
