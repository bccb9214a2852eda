/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vfork.S - vfork() cannot be wrapped in C: the child returns first, on the parent's stack, and would destroy the
 * frame that the parent returns by. So the return address travels in a register, which the kernel gives back to
 * each of the two.
 *
 * The child sees tt_vfork_active set in the memory that it borrows; when the parent resumes it puts back what was there
 * before (1 when a vfork child calls vfork itself).
 */
	.text
#if defined(__x86_64__)
	.globl	vfork
	.type	vfork, @function
	.globl	__vfork
	.type	__vfork, @function
	.p2align 4
vfork:
__vfork:
	.cfi_startproc
	endbr64
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	tt_preload_vfork_before
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	movq	tt_vfork_active@gottpoff(%rip), %rsi
	popq	%rdi				/* the return address; rdi, rsi, rdx survive the system call */
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movl	%fs:(%rsi), %edx
	movl	$1, %fs:(%rsi)
	movl	$58, %eax			/* SYS_vfork */
	syscall
	testl	%eax, %eax
	jz	1f				/* the child */
	movl	%edx, %fs:(%rsi)
1:	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	cmpq	$-4095, %rax
	jae	2f
	ret
2:	negl	%eax
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	call	__errno_location@PLT
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	movl	%ecx, (%rax)
	movq	$-1, %rax
	ret
	.cfi_endproc
	.size	vfork, .-vfork
	.size	__vfork, .-__vfork
#elif defined(__aarch64__)
/* No stub yet: a vfork child gets its own memory, which POSIX allows. */
	.globl	vfork
	.type	vfork, %function
	.globl	__vfork
	.type	__vfork, %function
vfork:
__vfork:
	b	fork
	.size	vfork, .-vfork
	.size	__vfork, .-__vfork
#else
#error "vfork: this processor is not supported yet"
#endif
	.section .note.GNU-stack, "", %progbits
