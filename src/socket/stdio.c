/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stdio.c - does the C library use standard input, output and error by itself?
 *
 * fdopen() is seen, but these three streams are there from the start, and what they read and write is the C library's own
 * system call. A program whose standard output is a connection may write to it by write() and by printf().
 *
 * Written: a stream that was ever used has a buffer (__fbufsize()). Asked before each send on such a descriptor, so nothing goes by
 * the ring once bytes may have gone, or go, the other way.
 *
 * Read: to find the stream used would be too late, bytes of a ring would be behind its back. Who reads standard input names it, or a
 * function that does, among its symbols; looked for once, at the start of a program that inherits a connection. Where a
 * name is found, a connection at descriptor 0 is read by the kernel alone.
 */
#include "socket/sock.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

bool tt_stdio_writes(const struct tt_sock *s)
{
	return (tt_fd_sock(1) == s && __fbufsize(stdout)) || (tt_fd_sock(2) == s && __fbufsize(stderr));
}

/* Whoever names one of these may read it: all else gets a stream from the program, or by fdopen(). */
static bool reads_input(const char *name)
{
	static const char *const names[] = {"stdin", "_IO_2_1_stdin_", "getchar", "getchar_unlocked", "scanf", "vscanf",
	    "__isoc99_scanf", "__isoc99_vscanf", "__isoc23_scanf", "__isoc23_vscanf", "gets", "__gets_chk", "getwchar",
	    "getwchar_unlocked", "wscanf", "vwscanf", "__isoc99_wscanf", "__isoc99_vwscanf", "__isoc23_wscanf",
	    "__isoc23_vwscanf", "getpass"};

	for (size_t i = 0; i < tt_array_len(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Symbols of a GNU hash table: those before the first hashed one, and to the end of the last chain. */
static size_t gnu_count(const uint32_t *table)
{
	uint32_t buckets = table[0];
	uint32_t first = table[1];
	const uint32_t *bucket = table + 4 + (size_t)table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *chain = bucket + buckets;
	uint32_t last = 0;

	for (uint32_t i = 0; i < buckets; i++)
		last = tt_max(last, bucket[i]);
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return (size_t)last + 1;
}

static const void *at(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	/* The loader has relocated them, except in the kernel's own object. */
	return (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
}

static int object_look(struct dl_phdr_info *info, size_t size, void *arg)
{
	const ElfW(Dyn) *dyn = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	size_t count = 0;
	size_t name = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			dyn = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
		if (dyn->d_tag == DT_SYMTAB)
			symbols = at(info, dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_STRTAB)
			strings = at(info, dyn->d_un.d_ptr);
		else if (dyn->d_tag == DT_HASH && !count)
			count = ((const uint32_t *)at(info, dyn->d_un.d_ptr))[1];
		else if (dyn->d_tag == DT_GNU_HASH)
			count = gnu_count(at(info, dyn->d_un.d_ptr));
		else if (dyn->d_tag == DT_SONAME)
			name = dyn->d_un.d_val;
	}
	if (!symbols || !strings || strncmp(strings + name, "libc.so", 7) == 0) /* its own */
		return 0;
	for (size_t i = 0; i < count; i++) {
		/* A variable of the C library's may have been copied into the program, which then defines it. */
		bool foreign = symbols[i].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbols[i].st_info) == STT_OBJECT;

		if (foreign && reads_input(strings + symbols[i].st_name))
			return *(bool *)arg = true;
	}
	return 0;
}

/* Some object of this program names standard input. */
static bool input_named;

void tt_stdio_look(void)
{
	bool found = false;

	(void)dl_iterate_phdr(object_look, &found);
	input_named = found;
}

bool tt_stdio_may_read(const struct tt_sock *s)
{
	return input_named && tt_fd_sock(0) == s;
}
