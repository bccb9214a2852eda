/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/rules.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fmt.h"
#include "base/raw.h"

#define WORDS_MAX 5

enum { SIDE_ANY, SIDE_SERVER, SIDE_CLIENT };

struct place {
	int family; /* 0: any address */
	uint8_t addr[16];
	unsigned int prefix;
	unsigned int port_low, port_high;
};

struct rule {
	bool accelerate;
	int protocol; /* 0 any */
	int side;
	struct place server;
	struct place client;
};

struct kind {
	int protocol;
	int side;
};

unsigned int tt_rules_count;
static struct rule rules[TT_RULES_MAX];

static const char *const action_words[] = {"accelerate", "kernel", "program", NULL};
static const char *const kind_words[] = {
    "any", "tcp", "tcp-server", "tcp-client", "udp", "udp-receiver", "udp-sender", NULL};
static const struct kind kinds[] = {
    {0, SIDE_ANY},
    {IPPROTO_TCP, SIDE_ANY},
    {IPPROTO_TCP, SIDE_SERVER},
    {IPPROTO_TCP, SIDE_CLIENT},
    {IPPROTO_UDP, SIDE_ANY},
    {IPPROTO_UDP, SIDE_SERVER},
    {IPPROTO_UDP, SIDE_CLIENT},
};

/* While a file is read. */
struct reader {
	const char *path;
	unsigned int line;
	int mistakes;
	bool ours; /* the last "program" line fits this process */
	char exe[PATH_MAX];
	char comm[16];
	tt_opt_error_fn *fn;
	void *arg;
};

static tt_cold void mistake(
    struct reader *r, const char *what, const char *word, const char *const *words)
{
	const char *nearest = words ? tt_opt_nearest(word, words) : NULL;
	char text[TT_OPT_ERROR_MAX];

	tt_fmt(text, sizeof(text), "%.160s:%u: \"%.60s\" %s%s%s%s", r->path, r->line, word, what,
	    nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
	r->mistakes++;
	r->fn(r->arg, text);
}

static tt_cold void file_mistake(struct reader *r, const char *what, int err)
{
	char text[TT_OPT_ERROR_MAX];

	tt_fmt(text, sizeof(text), "%.160s: %s%s%s", r->path, what, err ? ": " : "",
	    err ? strerrordesc_np(err) : "");
	r->mistakes++;
	r->fn(r->arg, text);
}

static int word_index(const char *word, const char *const *words)
{
	for (int i = 0; words[i]; i++) {
		if (strcmp(word, words[i]) == 0)
			return i;
	}
	return -1;
}

/* Reads digits up to max. False: none, or more. */
static bool number(const char **p, unsigned int max, unsigned int *out)
{
	const char *start = *p;
	unsigned int n = 0;

	for (; **p >= '0' && **p <= '9'; ++*p) {
		n = n * 10 + (unsigned int)(**p - '0');
		if (n > max)
			return false;
	}
	*out = n;
	return *p != start;
}

/* Cuts the address off: "*", "1.2.3.4", "[::1]" or a bare IPv6 address. Returns what follows, or
 * NULL. */
static const char *address(const char *word, struct place *out)
{
	char text[INET6_ADDRSTRLEN];
	const char *colon = strchr(word, ':'), *rest;
	bool bracket = word[0] == '[';
	size_t n;

	if (word[0] == '*')
		return word + 1;
	if (bracket)
		n = strcspn(++word, "]");
	else
		n = strcspn(word, colon && strchr(colon + 1, ':') ? "/" : "/:");
	rest = word + n;
	if (n >= sizeof(text) || (bracket && *rest != ']'))
		return NULL;
	memcpy(text, word, n);
	text[n] = '\0';
	out->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	out->prefix = out->family == AF_INET6 ? 128 : 32;
	if (inet_pton(out->family, text, out->addr) != 1)
		return NULL;
	return bracket ? rest + 1 : rest;
}

/* ::ffff:1.2.3.4 is 1.2.3.4, as flows name it. False: a prefix that cuts into the mapping. */
static bool mapped_place(struct place *out)
{
	static const uint8_t mapping[12] = {[10] = 0xff, [11] = 0xff};

	if (out->family != AF_INET6 || memcmp(out->addr, mapping, sizeof(mapping)) != 0)
		return true;
	if (out->prefix < 96)
		return false;
	out->family = AF_INET;
	out->prefix -= 96;
	memmove(out->addr, out->addr + sizeof(mapping), 4);
	return true;
}

static bool place(const char *word, struct place *out)
{
	const char *p;

	memset(out, 0, sizeof(*out));
	out->port_high = 65535;
	p = address(word, out);
	if (!p)
		return false;
	if (*p == '/') {
		p++;
		if (out->family == 0 || !number(&p, out->prefix, &out->prefix))
			return false;
	}
	if (!mapped_place(out))
		return false;
	if (*p == ':') {
		p++;
		if (!number(&p, 65535, &out->port_low))
			return false;
		out->port_high = out->port_low;
		if (*p == '-') {
			p++;
			if (!number(&p, 65535, &out->port_high) || out->port_high < out->port_low)
				return false;
		}
	}
	return *p == '\0';
}

/* * and ? only. */
static bool glob(const char *pattern, const char *text)
{
	const char *star = NULL, *back = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			back = text;
		} else if (*pattern == '?' || *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++back;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

static const char *const place_error =
    "is not an address; write ADDRESS[/PREFIX][:PORT[-PORT]], with * for any and [] around IPv6";

static void rule_add(struct reader *r, char *const *words, int n)
{
	struct rule rule = {.client = {.port_high = 65535}};
	int action = word_index(words[0], action_words);
	int kind = n > 1 ? word_index(words[1], kind_words) : -1;

	if (n < 3) {
		mistake(
		    r, "takes a kind (tcp-server, udp, any, ...) and an address", words[0], NULL);
		return;
	}
	if (kind < 0) {
		mistake(r,
		    "is not one of any, tcp, tcp-server, tcp-client, udp, udp-receiver, udp-sender",
		    words[1], kind_words);
		return;
	}
	if (!place(words[2], &rule.server) || (n > 3 && !place(words[3], &rule.client))) {
		mistake(r, place_error, place(words[2], &rule.server) ? words[3] : words[2], NULL);
		return;
	}
	if (n > 4) {
		mistake(r, "is one word too many", words[4], NULL);
		return;
	}
	rule.accelerate = action == 0;
	rule.protocol = kinds[kind].protocol;
	rule.side = kinds[kind].side;
	if (!r->ours)
		return;
	if (tt_rules_count == TT_RULES_MAX) {
		mistake(r, "is a rule too many; 256 can hold for one program", words[0], NULL);
		return;
	}
	rules[tt_rules_count++] = rule;
}

static void line_read(struct reader *r, char *line)
{
	char *words[WORDS_MAX];
	int n = 0;

	line[strcspn(line, "#")] = '\0';
	for (char *p = line; n < WORDS_MAX;) {
		p += strspn(p, " \t\r");
		if (!*p)
			break;
		words[n++] = p;
		p += strcspn(p, " \t\r");
		if (*p)
			*p++ = '\0';
	}
	if (n == 0)
		return;
	switch (word_index(words[0], action_words)) {
	case 0:
	case 1:
		rule_add(r, words, n);
		break;
	case 2:
		if (n != 2)
			mistake(r, "takes one pattern", words[0], NULL);
		else
			r->ours = glob(words[1], r->exe) || glob(words[1], r->comm);
		break;
	default:
		mistake(r, "is not accelerate, kernel or program", words[0], action_words);
	}
}

/* The names of this process: its file's and its comm, "" where /proc does not tell. */
static void names_read(struct reader *r)
{
	long n = tt_raw4(
	    SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)r->exe, sizeof(r->exe) - 1);
	const char *slash;
	int fd;

	r->exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(r->exe, '/');
	if (slash)
		memmove(r->exe, slash + 1, strlen(slash + 1) + 1);
	fd = tt_raw_open("/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
	n = fd >= 0 ? tt_raw_read(fd, r->comm, sizeof(r->comm) - 1) : 0;
	r->comm[n > 0 ? n : 0] = '\0';
	r->comm[strcspn(r->comm, "\n")] = '\0';
	if (fd >= 0)
		tt_raw_close(fd);
}

int tt_rules_load(const char *path, tt_opt_error_fn *fn, void *arg)
{
	static char text[TT_RULES_BYTES_MAX + 1];
	static struct reader r;
	size_t len = 0;
	long n = 1;
	int fd;

	r = (struct reader){.path = path, .ours = true, .fn = fn, .arg = arg};
	tt_rules_count = 0;
	if (!path[0])
		return 0;
	fd = tt_raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0) {
		file_mistake(&r, "the rules can't be read", -fd);
		return r.mistakes;
	}
	while (len < sizeof(text) && n != 0) {
		n = tt_raw_read(fd, text + len, sizeof(text) - len);
		if (n < 0 && n != -EINTR)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	tt_raw_close(fd);
	if (n < 0)
		file_mistake(&r, "the rules can't be read", (int)-n);
	else if (len == sizeof(text))
		file_mistake(&r, "longer than 32768 bytes; none of its rules holds", 0);
	else if (memchr(text, 0, len))
		file_mistake(&r, "not a text file (it has a zero byte); none of its rules holds", 0);
	if (r.mistakes)
		return r.mistakes;
	names_read(&r);
	text[len] = '\0';
	for (char *line = text; *line;) {
		size_t cut = strcspn(line, "\n");
		bool last = line[cut] == '\0';

		line[cut] = '\0';
		r.line++;
		line_read(&r, line);
		if (last)
			break;
		line += cut + 1;
	}
	return r.mistakes;
}

static bool place_fits(const struct place *p, int family, const uint8_t *addr, uint16_t port)
{
	unsigned int host_port = ntohs(port), bytes = p->prefix / 8, bits = p->prefix % 8;

	if (host_port < p->port_low || host_port > p->port_high)
		return false;
	if (p->family == 0)
		return true;
	if (p->family != family || memcmp(p->addr, addr, bytes) != 0)
		return false;
	return bits == 0 || ((p->addr[bytes] ^ addr[bytes]) & (0xff00u >> bits) & 0xffu) == 0;
}

bool tt_rules_match(bool server, int protocol, int family, const uint8_t local[16],
    uint16_t local_port, const uint8_t remote[16], uint16_t remote_port)
{
	const uint8_t *s = server ? local : remote, *c = server ? remote : local;
	uint16_t s_port = server ? local_port : remote_port;
	uint16_t c_port = server ? remote_port : local_port;

	for (unsigned int i = 0; i < tt_rules_count; i++) {
		const struct rule *rule = &rules[i];

		if ((rule->protocol == 0 || rule->protocol == protocol) &&
		    (rule->side == SIDE_ANY || (rule->side == SIDE_SERVER) == server) &&
		    place_fits(&rule->server, family, s, s_port) &&
		    place_fits(&rule->client, family, c, c_port))
			return rule->accelerate;
	}
	return true;
}
