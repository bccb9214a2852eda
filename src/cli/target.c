/* SPDX-License-Identifier: BSD-3-Clause */
#include "cli/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PHDRS_MAX 1024u
#define SHDRS_MAX 4096u
#define NOTES_MAX 4096u     /* bytes looked at in one note segment */
#define LINE_MAX_BYTES 256u /* of a "#!" line, as in the kernel */

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "name the ELF machine of this processor here"
#endif

const char *tt_obstacle_text(enum tt_obstacle obstacle)
{
	static const char *const texts[] = {
#define X(name, text) text,
	    TT_OBSTACLES(X)
#undef X
	};

	TT_ASSERT(obstacle < tt_array_len(texts));
	return texts[obstacle];
}

/* Finding it */

static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
		return -EACCES;
	return 0;
}

int tt_target_find(const char *name, const char *path, char out[PATH_MAX])
{
	int rc = -ENOENT;

	if (strchr(name, '/')) {
		if ((size_t)snprintf(out, PATH_MAX, "%s", name) >= PATH_MAX)
			return -ENAMETOOLONG;
		return executable(out);
	}
	if (!*name)
		return -ENOENT;
	if (!path)
		path = "/bin:/usr/bin";
	for (;;) {
		size_t n = strcspn(path, ":");
		int one;

		/* An empty element is the current directory. */
		if ((size_t)snprintf(out, PATH_MAX, "%.*s%s%s", (int)n, path, n ? "/" : "", name) <
		    PATH_MAX) {
			one = executable(out);
			if (one == 0)
				return 0;
			if (one == -EACCES)
				rc = -EACCES;
		}
		if (!path[n])
			return rc;
		path += n + 1;
	}
}

/* ELF */

static bool read_at(int fd, void *buf, size_t size, uint64_t offset)
{
	if (offset > INT64_MAX - size)
		return false;
	return pread(fd, buf, size, (off_t)offset) == (ssize_t)size;
}

/* The note that Go's linker writes: owner "Go", type 4 (build identifier). */
static bool notes_say_go(int fd, const Elf64_Phdr *ph)
{
	char buf[NOTES_MAX];
	size_t size = ph->p_filesz < sizeof(buf) ? (size_t)ph->p_filesz : sizeof(buf);
	size_t at = 0;

	if (!read_at(fd, buf, size, ph->p_offset))
		return false;
	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t next;

		memcpy(&note, buf + at, sizeof(note));
		next = at + sizeof(note) + (((uint64_t)note.n_namesz + 3) & ~3ull) +
		       (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (next > size)
			return false;
		if (note.n_type == 4 && note.n_namesz == 4 &&
		    memcmp(buf + at + sizeof(note), "Go\0", 4) == 0)
			return true;
		at = (size_t)next;
	}
	return false;
}

/* Go programs linked by a foreign linker have no such note, but this section. */
static bool sections_say_go(int fd, const Elf64_Ehdr *eh)
{
	static const char want[] = ".go.buildinfo";
	Elf64_Shdr names, sh;
	char name[sizeof(want)];

	if (eh->e_shentsize != sizeof(Elf64_Shdr) || eh->e_shnum > SHDRS_MAX ||
	    eh->e_shstrndx >= eh->e_shnum)
		return false;
	if (eh->e_shoff > INT64_MAX / 2 ||
	    !read_at(fd, &names, sizeof(names), eh->e_shoff + eh->e_shstrndx * sizeof(sh)))
		return false;
	for (size_t i = 0; i < eh->e_shnum; i++) {
		if (!read_at(fd, &sh, sizeof(sh), eh->e_shoff + i * sizeof(sh)))
			return false;
		if (sh.sh_name < names.sh_size && names.sh_offset <= INT64_MAX / 2 &&
		    read_at(fd, name, sizeof(name), names.sh_offset + sh.sh_name) &&
		    memcmp(name, want, sizeof(want)) == 0)
			return true;
	}
	return false;
}

static bool interp_read(int fd, const Elf64_Phdr *ph, char interp[256])
{
	size_t size = ph->p_filesz < 255 ? (size_t)ph->p_filesz : 255;

	memset(interp, 0, 256);
	return size > 0 && read_at(fd, interp, size, ph->p_offset);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

int tt_target_elf(int fd, const char *loader, char interp[256], enum tt_obstacle *obstacle)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	bool go = false;

	*obstacle = TT_OBSTACLE_NONE;
	interp[0] = '\0';
	if (!read_at(fd, &eh, EI_NIDENT, 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	if (eh.e_ident[EI_CLASS] != ELFCLASS64 && eh.e_ident[EI_CLASS] != ELFCLASS32)
		return -ENOEXEC;
	if (eh.e_ident[EI_DATA] != ELFDATA2LSB) {
		*obstacle = TT_OBSTACLE_MACHINE;
		return 0;
	}
	/* e_type and e_machine stand at the same place in both classes. */
	if (!read_at(fd, &eh, offsetof(Elf64_Ehdr, e_version), 0))
		return -EIO;
	if (eh.e_ident[EI_CLASS] == ELFCLASS32) {
		*obstacle =
		    eh.e_machine == EM_386 || eh.e_machine == EM_X86_64 || eh.e_machine == EM_ARM
			? TT_OBSTACLE_BITS
			: TT_OBSTACLE_MACHINE;
		return 0;
	}
	if (eh.e_machine != MACHINE) {
		*obstacle = TT_OBSTACLE_MACHINE;
		return 0;
	}
	if (!read_at(fd, &eh, sizeof(eh), 0) || eh.e_phentsize != sizeof(ph) ||
	    eh.e_phnum > PHDRS_MAX || eh.e_phoff > INT64_MAX / 2)
		return -EIO;
	for (size_t i = 0; i < eh.e_phnum; i++) {
		if (!read_at(fd, &ph, sizeof(ph), eh.e_phoff + i * sizeof(ph)))
			return -EIO;
		if (ph.p_type == PT_INTERP && !interp_read(fd, &ph, interp))
			return -EIO;
		if (ph.p_type == PT_NOTE && notes_say_go(fd, &ph))
			go = true;
	}
	if (go || sections_say_go(fd, &eh))
		*obstacle = TT_OBSTACLE_GO;
	else if (!interp[0])
		*obstacle = TT_OBSTACLE_STATIC;
	else if (loader && strcmp(base_name(interp), loader) != 0)
		*obstacle = TT_OBSTACLE_LIBC;
	return 0;
}

/* What the kernel and the loader do with privileges */

/* True when the kernel gives privileges to this file for this user: ld.so then drops LD_PRELOAD. */
static enum tt_obstacle privileges(const char *path, const struct stat *st)
{
	struct statvfs fs;

	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return TT_OBSTACLE_NONE;
	if (statvfs(path, &fs) == 0 && (fs.f_flag & ST_NOSUID))
		return TT_OBSTACLE_NONE;
	if ((st->st_mode & S_ISUID) && st->st_uid != getuid())
		return TT_OBSTACLE_SETUID;
	if ((st->st_mode & S_ISGID) && (st->st_mode & S_IXGRP) && st->st_gid != getgid())
		return TT_OBSTACLE_SETUID;
	if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
		return TT_OBSTACLE_CAPS;
	return TT_OBSTACLE_NONE;
}

/* The loader of this very program: what loads libtaut.so. "" when this program is static. */
static void own_loader(char interp[256])
{
	enum tt_obstacle ignored;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	interp[0] = '\0';
	if (fd < 0)
		return;
	if (tt_target_elf(fd, NULL, interp, &ignored) < 0)
		interp[0] = '\0';
	close(fd);
}

/* The loader run as a program ("/lib64/ld-linux-x86-64.so.2 PROGRAM") has no loader itself and
 * honours LD_PRELOAD. */
static bool same_file(const char *path, const struct stat *st)
{
	struct stat other;

	return path[0] && stat(path, &other) == 0 && other.st_dev == st->st_dev &&
	       other.st_ino == st->st_ino;
}

/* Puts the interpreter of a script into out; "#!/usr/bin/env NAME" is followed to NAME. -ENOEXEC:
 * not a script. */
static int script_interpreter(int fd, char out[PATH_MAX])
{
	char line[LINE_MAX_BYTES + 1];
	char *word, *arg, *rest;
	ssize_t n = pread(fd, line, LINE_MAX_BYTES, 0);

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return -ENOEXEC;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (!word)
		return -ENOEXEC;
	arg = strtok_r(NULL, " \t", &rest);
	if (arg && strcmp(base_name(word), "env") == 0) {
		if (strcmp(arg, "-S") == 0)
			arg = strtok_r(NULL, " \t", &rest);
		if (arg && arg[0] != '-' && !strchr(arg, '=') &&
		    tt_target_find(arg, getenv("PATH"), out) == 0)
			return 0;
	}
	snprintf(out, PATH_MAX, "%s", word);
	return 0;
}

int tt_target_inspect(struct tt_target *out)
{
	char loader[256];
	struct stat st;
	int rc = 0;

	own_loader(loader);
	out->obstacle = TT_OBSTACLE_NONE;
	out->interp[0] = '\0';
	snprintf(out->binary, sizeof(out->binary), "%s", out->path);
	for (int depth = 0; depth <= TT_TARGET_SCRIPTS_MAX; depth++) {
		int fd = open(out->binary, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

		if (fd < 0 || fstat(fd, &st) < 0) {
			rc = -errno;
			if (fd >= 0)
				close(fd);
			/* A program may be executable and not readable: its privileges still show.
			 */
			if (stat(out->binary, &st) == 0)
				out->obstacle = privileges(out->binary, &st);
			return out->obstacle == TT_OBSTACLE_NONE ? rc : 0;
		}
		rc = tt_target_elf(
		    fd, loader[0] ? base_name(loader) : NULL, out->interp, &out->obstacle);
		if (rc == -ENOEXEC && script_interpreter(fd, out->binary) == 0) {
			close(fd);
			continue;
		}
		close(fd);
		if (rc == -ENOEXEC) { /* execvp() hands it to the shell */
			if (strcmp(out->binary, "/bin/sh") == 0)
				return rc;
			strcpy(out->binary, "/bin/sh");
			continue;
		}
		if (rc < 0)
			return rc;
		if (out->obstacle == TT_OBSTACLE_STATIC && same_file(loader, &st))
			out->obstacle = TT_OBSTACLE_NONE;
		if (out->obstacle == TT_OBSTACLE_NONE)
			out->obstacle = privileges(out->binary, &st);
		return 0;
	}
	return -ELOOP;
}
