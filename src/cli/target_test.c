/* SPDX-License-Identifier: BSD-3-Clause */
/* ELF files are made byte by byte here: each obstacle, and files that lie about themselves. */
#include "cli/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LOADER "ld-linux-x86-64.so.2"
#define LOADER_PATH "/lib64/ld-linux-x86-64.so.2"

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	char interp[64];
	struct {
		Elf64_Nhdr head;
		char name[4];
		char desc[4];
	} note[2];
	Elf64_Shdr sh[3];
	char names[64];
};

/* A dynamic program: loads, names a loader, carries a note of the linker; stripped. */
static struct image dynamic(void)
{
	struct image im = {
	    .eh =
		{
		    .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		    .e_type = ET_DYN,
		    .e_machine = EM_X86_64,
		    .e_version = EV_CURRENT,
		    .e_phoff = offsetof(struct image, ph),
		    .e_ehsize = sizeof(Elf64_Ehdr),
		    .e_phentsize = sizeof(Elf64_Phdr),
		    .e_phnum = 3,
		},
	    .ph =
		{
		    {.p_type = PT_LOAD},
		    {.p_type = PT_INTERP,
			.p_offset = offsetof(struct image, interp),
			.p_filesz = sizeof(LOADER_PATH)},
		    {.p_type = PT_NOTE,
			.p_offset = offsetof(struct image, note),
			.p_filesz = 2 * 20},
		},
	    .interp = LOADER_PATH,
	};

	for (int i = 0; i < 2; i++) {
		im.note[i].head = (Elf64_Nhdr){.n_namesz = 4, .n_descsz = 4, .n_type = 3};
		memcpy(im.note[i].name, "GNU", 4);
	}
	return im;
}

static int look(const struct image *im, size_t size, enum tt_obstacle *obstacle, char interp[256])
{
	int fd = memfd_create("image", MFD_CLOEXEC);
	int rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, im, size), size);
	rc = tt_target_elf(fd, LOADER, interp, obstacle);
	close(fd);
	return rc;
}

static enum tt_obstacle obstacle_of(const struct image *im)
{
	enum tt_obstacle obstacle;
	char interp[256];

	assert_int_equal(look(im, sizeof(*im), &obstacle, interp), 0);
	return obstacle;
}

static void test_dynamic(void **state)
{
	struct image im = dynamic();
	enum tt_obstacle obstacle;
	char interp[256];

	(void)state;
	assert_int_equal(look(&im, sizeof(im), &obstacle, interp), 0);
	assert_int_equal(obstacle, TT_OBSTACLE_NONE);
	assert_string_equal(interp, LOADER_PATH);
	/* The same loader elsewhere is the same C library's. */
	strcpy(im.interp, "/opt/x/" LOADER);
	im.ph[1].p_filesz = sizeof("/opt/x/" LOADER);
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_NONE);
}

static void test_static(void **state)
{
	struct image im = dynamic();

	(void)state;
	im.ph[1].p_type = PT_NULL;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_STATIC);
	im.eh.e_type = ET_EXEC;
	im.eh.e_phnum = 0;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_STATIC);
}

static void test_libc(void **state)
{
	struct image im = dynamic();

	(void)state;
	strcpy(im.interp, "/lib/ld-musl-x86_64.so.1");
	im.ph[1].p_filesz = strlen(im.interp) + 1;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_LIBC);
}

static void test_go(void **state)
{
	struct image im = dynamic();

	(void)state;
	/* The note stands second: the first is stepped over. */
	im.note[1].head.n_type = 4;
	memcpy(im.note[1].name, "Go\0", 4);
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_GO);
	/* A static Go program is named by what is the matter with it: Go. */
	im.ph[1].p_type = PT_NULL;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_GO);
	/* By the section, without the note. */
	im = dynamic();
	im.eh.e_shoff = offsetof(struct image, sh);
	im.eh.e_shentsize = sizeof(Elf64_Shdr);
	im.eh.e_shnum = 3;
	im.eh.e_shstrndx = 2;
	im.sh[1].sh_name = 1;
	im.sh[2].sh_offset = offsetof(struct image, names);
	im.sh[2].sh_size = sizeof(im.names);
	memcpy(im.names, "\0.go.buildinfo", 15);
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_GO);
	memcpy(im.names, "\0.go.buildinfO", 15);
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_NONE);
}

static void test_machine(void **state)
{
	struct image im = dynamic();

	(void)state;
	im.eh.e_machine = EM_AARCH64;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_MACHINE);
	im.eh.e_machine = EM_386;
	im.eh.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_BITS);
	im.eh.e_machine = EM_MIPS;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_MACHINE);
	im = dynamic();
	im.eh.e_ident[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_MACHINE);
}

/* Cut anywhere, or with any field at its end: an answer or an error, and no crash. */
static void test_hostile(void **state)
{
	struct image im = dynamic();
	enum tt_obstacle obstacle;
	char interp[256];

	(void)state;
	for (size_t size = 0; size < sizeof(im); size++) {
		int rc = look(&im, size, &obstacle, interp);

		if (size < EI_NIDENT)
			assert_int_equal(rc, -ENOEXEC);
		else if (size < sizeof(im.eh) + sizeof(im.ph))
			assert_int_equal(rc, -EIO);
		else
			assert_true(rc == 0 || rc == -EIO);
	}
	for (size_t at = EI_NIDENT; at < sizeof(im); at++) {
		im = dynamic();
		im.eh.e_shoff = offsetof(struct image, sh);
		im.eh.e_shentsize = sizeof(Elf64_Shdr);
		im.eh.e_shnum = 3;
		im.eh.e_shstrndx = 2;
		memset((char *)&im + at, 0xff, tt_min(sizeof(im) - at, (size_t)8));
		assert_true(look(&im, sizeof(im), &obstacle, interp) <= 0);
		((char *)&im)[at] = 0x7f;
		assert_true(look(&im, sizeof(im), &obstacle, interp) <= 0);
	}
	im = dynamic();
	im.eh.e_phnum = 0xffff;
	assert_int_equal(look(&im, sizeof(im), &obstacle, interp), -EIO);
	im = dynamic();
	im.note[0].head.n_namesz = im.note[0].head.n_descsz = 0xffffffff;
	assert_int_equal(obstacle_of(&im), TT_OBSTACLE_NONE);
}

static void file_make(char path[64], const char *text, mode_t mode)
{
	int fd;

	strcpy(path, "/tmp/taut-target-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void inspect(const char *path, struct tt_target *target)
{
	strcpy(target->path, path);
	assert_int_equal(tt_target_inspect(target), 0);
}

static void test_script(void **state)
{
	static struct tt_target target, shell;
	char path[64], real[PATH_MAX];

	(void)state;
	assert_int_equal(tt_target_find("sh", "/nonexistent:/bin", shell.path), 0);
	assert_string_equal(shell.path, "/bin/sh");
	inspect("/bin/sh", &shell);
	assert_int_equal(shell.obstacle, TT_OBSTACLE_NONE);
	file_make(path, "#! /bin/sh -e\necho\n", 0700);
	inspect(path, &target);
	assert_string_equal(target.binary, "/bin/sh");
	assert_int_equal(target.obstacle, TT_OBSTACLE_NONE);
	assert_string_equal(target.interp, shell.interp);
	unlink(path);
	file_make(path, "#!/usr/bin/env sh\n", 0700);
	inspect(path, &target);
	assert_non_null(realpath(target.binary, real));
	assert_non_null(strstr(target.binary, "/sh"));
	unlink(path);
	/* No "#!" line: the shell reads it. */
	file_make(path, "echo\n", 0700);
	inspect(path, &target);
	assert_string_equal(target.binary, "/bin/sh");
	unlink(path);
	/* An interpreter that is itself a script, round and round. */
	file_make(path, "", 0700);
	{
		char line[80];
		int fd = open(path, O_WRONLY | O_CLOEXEC);

		snprintf(line, sizeof(line), "#!%s\n", path);
		assert_int_equal(write(fd, line, strlen(line)), strlen(line));
		close(fd);
	}
	strcpy(target.path, path);
	assert_int_equal(tt_target_inspect(&target), -ELOOP);
	unlink(path);
}

static void test_find(void **state)
{
	char path[64], out[PATH_MAX];

	(void)state;
	assert_int_equal(tt_target_find("taut-no-such-program", "/bin:/usr/bin", out), -ENOENT);
	assert_int_equal(tt_target_find("", "/bin", out), -ENOENT);
	assert_int_equal(tt_target_find("/nonexistent/x", "/bin", out), -ENOENT);
	assert_int_equal(tt_target_find("/tmp", NULL, out), -EACCES);
	file_make(path, "x", 0600);
	assert_int_equal(tt_target_find(path, NULL, out), -EACCES);
	assert_int_equal(tt_target_find(path + 5, "/bin:/tmp", out), -EACCES);
	unlink(path);
}

/* Files that give privileges make the loader drop LD_PRELOAD; for their own owner they give none.
 */
static void test_setuid(void **state)
{
	static struct tt_target target;
	char path[64];
	struct image im = dynamic();
	int fd;

	(void)state;
	file_make(path, "", 0700);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(write(fd, &im, sizeof(im)), sizeof(im));
	assert_int_equal(fchmod(fd, 04755), 0);
	inspect(path, &target);
	assert_int_equal(target.obstacle, TT_OBSTACLE_NONE);
	if (getuid() == 0) {
		assert_int_equal(fchown(fd, 12345, 0), 0);
		assert_int_equal(fchmod(fd, 04755), 0);
		inspect(path, &target);
		assert_int_equal(target.obstacle, TT_OBSTACLE_SETUID);
		assert_int_equal(fchown(fd, 0, 12345), 0);
		assert_int_equal(fchmod(fd, 02755), 0);
		inspect(path, &target);
		assert_int_equal(target.obstacle, TT_OBSTACLE_SETUID);
		/* Without the group's x the bit means locking, not privileges. */
		assert_int_equal(fchmod(fd, 02745), 0);
		inspect(path, &target);
		assert_int_equal(target.obstacle, TT_OBSTACLE_NONE);
	}
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_dynamic),
	    cmocka_unit_test(test_static),
	    cmocka_unit_test(test_libc),
	    cmocka_unit_test(test_go),
	    cmocka_unit_test(test_machine),
	    cmocka_unit_test(test_hostile),
	    cmocka_unit_test(test_script),
	    cmocka_unit_test(test_find),
	    cmocka_unit_test(test_setuid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
