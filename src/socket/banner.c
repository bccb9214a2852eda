/* SPDX-License-Identifier: BSD-3-Clause */
#include "socket/banner.h"

#include <asm/termbits.h>
#include <asm/ioctls.h>
#include <string.h>
#include <unistd.h>

#include "base/fmt.h"
#include "base/log.h"
#include "base/opt.h"
#include "base/raw.h"
#include "socket/statpage.h"
#include "socket/tunables.h"

static bool terminal(int fd)
{
	struct termios t;

	return tt_raw3(SYS_ioctl, fd, TCGETS, (long)&t) == 0;
}

/* The value of TAUT_BANNER_PID where it stands in the environment block, or NULL. */
static char *pid_value(void)
{
	size_t n = sizeof(TT_BANNER_PID) - 1;

	for (char **e = environ; e && *e; e++) {
		if (strncmp(*e, TT_BANNER_PID, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	}
	return NULL;
}

static void settings(void)
{
	char line[TT_LOG_LINE_MAX - 64];
	size_t len = 0;

	for (size_t i = 0; i < tt_tunables_set.count && len < sizeof(line); i++) {
		const struct tt_opt *row = &tt_tunables_set.rows[i];
		char value[TT_TUN_PATH_MAX];

		/* The profile stands in the line above; how the banner came to be printed is no
		 * news. */
		if (!row->env || row->hidden || tt_opt_is_default(row, &tt_tun) ||
		    strcmp(row->env, "TAUT_BANNER") == 0 || strcmp(row->env, "TAUT_PROFILE") == 0)
			continue;
		tt_opt_show(row, &tt_tun, value, sizeof(value));
		len += tt_fmt(
		    line + len, sizeof(line) - len, "%s%s=%s", len ? " " : "", row->env, value);
		if (row->def && row->def[0] && len < sizeof(line))
			len += tt_fmt(line + len, sizeof(line) - len, " (default %s)", row->def);
	}
	if (len)
		tt_log_note("differs from default: %s", line);
}

void tt_banner(void)
{
	char *value = pid_value();
	char own[16];

	if (tt_tun.banner == TT_BANNER_OFF)
		return;
	tt_fmt(own, sizeof(own), "%d", getpid());
	if (value ? strcmp(value, own) != 0 : tt_tun.banner != TT_BANNER_ON)
		return;
	if (tt_tun.banner == TT_BANNER_AUTO && !terminal(2))
		return;
	tt_log_note("version %s, profile %s, process %s: %s", TAUT_VERSION,
	    tt_profile_word(tt_tun.profile), own, tt_stat->cmdline);
	settings();
	/* In place: setenv() allocates, and a program started by exec of this one inherits the
	 * block. */
	if (value)
		memset(value, '0', strlen(value));
}
