/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fmt.h"

#include <string.h>

struct out {
	char *buf;
	size_t size;
	size_t len;
};

struct spec {
	bool left;
	bool zero;
	int width;
	int precision; /* -1: none given */
	int longs;     /* 0 int, 1 long, 2 long long; size_t counts as long */
};

static void put(struct out *o, char c)
{
	if (o->len + 1 < o->size)
		o->buf[o->len] = c;
	o->len++;
}

static void put_padded(struct out *o, const char *text, size_t len, const struct spec *sp)
{
	size_t pad = sp->width > 0 && (size_t)sp->width > len ? (size_t)sp->width - len : 0;

	for (size_t i = 0; !sp->left && i < pad; i++)
		put(o, ' ');
	for (size_t i = 0; i < len; i++)
		put(o, text[i]);
	for (size_t i = 0; sp->left && i < pad; i++)
		put(o, ' ');
}

static void put_number(
    struct out *o, unsigned long long v, bool negative, unsigned int base, const struct spec *sp)
{
	static const char digits[] = "0123456789abcdef";
	char text[96];
	size_t at = sizeof(text);
	size_t zeros = sp->zero && !sp->left && sp->width > 0 ? (size_t)sp->width : 0;

	zeros = tt_min(zeros, sizeof(text) - 1);
	do {
		text[--at] = digits[v % base];
		v /= base;
	} while (v != 0);
	while (sizeof(text) - at + (negative ? 1u : 0u) < zeros)
		text[--at] = '0';
	if (negative)
		text[--at] = '-';
	put_padded(o, text + at, sizeof(text) - at, sp);
}

static int get_count(const char **fmt, va_list *ap)
{
	int n = 0;

	if (**fmt == '*') {
		(*fmt)++;
		return va_arg(*ap, int);
	}
	for (; **fmt >= '0' && **fmt <= '9'; (*fmt)++)
		n = n < 100000 ? n * 10 + (**fmt - '0') : n;
	return n;
}

static const char *get_spec(const char *fmt, struct spec *sp, va_list *ap)
{
	*sp = (struct spec){.precision = -1};
	for (; *fmt == '0' || *fmt == '-'; fmt++) {
		sp->zero |= *fmt == '0';
		sp->left |= *fmt == '-';
	}
	sp->width = get_count(&fmt, ap);
	if (sp->width < 0) {
		sp->left = true;
		sp->width = sp->width < -100000 ? 100000 : -sp->width;
	}
	if (*fmt == '.') {
		fmt++;
		sp->precision = get_count(&fmt, ap);
	}
	for (; *fmt == 'l' || *fmt == 'z'; fmt++)
		sp->longs++;
	return fmt;
}

/* False: this conversion is not served, and its argument was not taken. */
static bool convert(struct out *o, char conv, const struct spec *sp, va_list *ap)
{
	long long v;
	unsigned long long u;
	const char *s;
	char c;

	switch (conv) {
	case 'd':
	case 'i':
		v = sp->longs == 0   ? va_arg(*ap, int)
		    : sp->longs == 1 ? va_arg(*ap, long)
				     : va_arg(*ap, long long);
		put_number(
		    o, v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v, v < 0, 10, sp);
		return true;
	case 'u':
	case 'x':
		u = sp->longs == 0   ? va_arg(*ap, unsigned int)
		    : sp->longs == 1 ? va_arg(*ap, unsigned long)
				     : va_arg(*ap, unsigned long long);
		put_number(o, u, false, conv == 'x' ? 16 : 10, sp);
		return true;
	case 'p':
		put(o, '0');
		put(o, 'x');
		put_number(o, (unsigned long long)(uintptr_t)va_arg(*ap, void *), false, 16, sp);
		return true;
	case 's':
		s = va_arg(*ap, const char *);
		s = s ? s : "(null)";
		put_padded(
		    o, s, sp->precision < 0 ? strlen(s) : strnlen(s, (size_t)sp->precision), sp);
		return true;
	case 'c':
		c = (char)va_arg(*ap, int);
		put_padded(o, &c, 1, sp);
		return true;
	case '%':
		put(o, '%');
		return true;
	default:
		return false;
	}
}

size_t tt_vfmt(char *buf, size_t size, const char *fmt, va_list ap)
{
	struct out o = {buf, size, 0};
	struct spec sp;
	va_list args;

	va_copy(args, ap);
	while (*fmt) {
		const char *start = fmt;

		if (*fmt != '%') {
			put(&o, *fmt++);
			continue;
		}
		fmt = get_spec(fmt + 1, &sp, &args);
		if (*fmt && convert(&o, *fmt, &sp, &args)) {
			fmt++;
			continue;
		}
		/* What follows would take arguments of unknown size: show it instead. */
		for (; *start; start++)
			put(&o, *start);
		break;
	}
	va_end(args);
	if (size > 0)
		buf[tt_min(o.len, size - 1)] = '\0';
	return o.len;
}

size_t tt_fmt(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = tt_vfmt(buf, size, fmt, ap);
	va_end(ap);
	return n;
}
