/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.S - what copy.h promises. Between tt_copy_begin and tt_copy_end no instruction touches the stack but the returns, so a
 * thread can be sent from any of them to tt_copy_fault.
 */
	.text
	.hidden	tt_copy_begin
	.globl	tt_copy_begin
	.hidden	tt_copy_end
	.globl	tt_copy_end
	.hidden	tt_copy_fault
	.globl	tt_copy_fault
	.hidden	tt_copy
	.globl	tt_copy
	.type	tt_copy, %function
	.hidden	tt_copy_readable
	.globl	tt_copy_readable
	.type	tt_copy_readable, %function
#if defined(__x86_64__)
	.p2align 6
tt_copy_begin:
tt_copy:			/* to rdi, from rsi, n rdx */
	.cfi_startproc
	endbr64
	movl	$1, %eax
	cmpq	$16, %rdx
	jb	.Lunder_16
	cmpq	$32, %rdx
	ja	.Lover_32
	movups	(%rsi), %xmm0
	movups	-16(%rsi,%rdx), %xmm1
	movups	%xmm0, (%rdi)
	movups	%xmm1, -16(%rdi,%rdx)
	ret
.Lover_32:
	cmpq	$64, %rdx
	ja	.Lover_64
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	-32(%rsi,%rdx), %xmm2
	movups	-16(%rsi,%rdx), %xmm3
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, -32(%rdi,%rdx)
	movups	%xmm3, -16(%rdi,%rdx)
	ret
.Lover_64:
	cmpq	$128, %rdx
	ja	.Lover_128
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movups	-64(%rsi,%rdx), %xmm4
	movups	-48(%rsi,%rdx), %xmm5
	movups	-32(%rsi,%rdx), %xmm6
	movups	-16(%rsi,%rdx), %xmm7
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, 32(%rdi)
	movups	%xmm3, 48(%rdi)
	movups	%xmm4, -64(%rdi,%rdx)
	movups	%xmm5, -48(%rdi,%rdx)
	movups	%xmm6, -32(%rdi,%rdx)
	movups	%xmm7, -16(%rdi,%rdx)
	ret
.Lover_128:
	cmpq	tt_copy_rep_min(%rip), %rdx
	jae	.Lrep
	leaq	-64(%rdi,%rdx), %r8	/* the last 64 bytes, which may overlap those before */
	leaq	-64(%rsi,%rdx), %r9
	.p2align 4
.Lblock:
	movups	(%rsi), %xmm0
	movups	16(%rsi), %xmm1
	movups	32(%rsi), %xmm2
	movups	48(%rsi), %xmm3
	movups	%xmm0, (%rdi)
	movups	%xmm1, 16(%rdi)
	movups	%xmm2, 32(%rdi)
	movups	%xmm3, 48(%rdi)
	addq	$64, %rsi
	addq	$64, %rdi
	cmpq	%r8, %rdi
	jb	.Lblock
	movups	(%r9), %xmm0
	movups	16(%r9), %xmm1
	movups	32(%r9), %xmm2
	movups	48(%r9), %xmm3
	movups	%xmm0, (%r8)
	movups	%xmm1, 16(%r8)
	movups	%xmm2, 32(%r8)
	movups	%xmm3, 48(%r8)
	ret
.Lrep:
	movq	%rdx, %rcx
	rep movsb
	ret
.Lunder_16:
	cmpq	$8, %rdx
	jb	.Lunder_8
	movq	(%rsi), %rcx
	movq	-8(%rsi,%rdx), %r8
	movq	%rcx, (%rdi)
	movq	%r8, -8(%rdi,%rdx)
	ret
.Lunder_8:
	cmpq	$4, %rdx
	jb	.Lunder_4
	movl	(%rsi), %ecx
	movl	-4(%rsi,%rdx), %r8d
	movl	%ecx, (%rdi)
	movl	%r8d, -4(%rdi,%rdx)
	ret
.Lunder_4:
	testq	%rdx, %rdx
	jz	.Lnothing
	movzbl	(%rsi), %ecx
	movzbl	-1(%rsi,%rdx), %r8d
	movq	%rdx, %r10
	shrq	$1, %r10
	movzbl	(%rsi,%r10), %r9d
	movb	%cl, (%rdi)
	movb	%r9b, (%rdi,%r10)
	movb	%r8b, -1(%rdi,%rdx)
.Lnothing:
	ret
	.cfi_endproc
	.size	tt_copy, .-tt_copy

	.p2align 4
tt_copy_readable:		/* p rdi, n rsi */
	.cfi_startproc
	endbr64
	movl	$1, %eax
	testq	%rsi, %rsi
	jz	.Lread_all
	movq	%rdi, %rcx
	addq	%rsi, %rcx
	jc	.Lread_none
	decq	%rcx		/* the last byte */
.Lread_page:
	movzbl	(%rdi), %edx
	orq	$4095, %rdi
	incq	%rdi
	jz	.Lread_all
	cmpq	%rcx, %rdi
	jbe	.Lread_page
.Lread_all:
	ret
.Lread_none:
	xorl	%eax, %eax
	ret
tt_copy_end:
tt_copy_fault:
	xorl	%eax, %eax
	ret
	.cfi_endproc
	.size	tt_copy_readable, .-tt_copy_readable
#elif defined(__aarch64__)
	.p2align 6
tt_copy_begin:
tt_copy:			/* to x0, from x1, n x2 */
	.cfi_startproc
	mov	x3, x0
	cmp	x2, 16
	b.lo	.Lbytes
.Lblock:
	ldp	x4, x5, [x1], 16
	stp	x4, x5, [x3], 16
	sub	x2, x2, 16
	cmp	x2, 16
	b.hs	.Lblock
.Lbytes:
	cbz	x2, .Lcopied
	ldrb	w4, [x1], 1
	strb	w4, [x3], 1
	sub	x2, x2, 1
	b	.Lbytes
.Lcopied:
	mov	w0, 1
	ret
	.cfi_endproc
	.size	tt_copy, .-tt_copy

	.p2align 4
tt_copy_readable:		/* p x0, n x1 */
	.cfi_startproc
	cbz	x1, .Lread_all
	adds	x2, x0, x1
	b.cs	.Lread_none
	sub	x2, x2, 1	/* the last byte */
.Lread_page:
	ldrb	w3, [x0]
	orr	x0, x0, 4095
	add	x0, x0, 1
	cbz	x0, .Lread_all
	cmp	x0, x2
	b.ls	.Lread_page
.Lread_all:
	mov	w0, 1
	ret
.Lread_none:
	mov	w0, 0
	ret
tt_copy_end:
tt_copy_fault:
	mov	w0, 0
	ret
	.cfi_endproc
	.size	tt_copy_readable, .-tt_copy_readable
#else
#error "guarded copies: this processor is not supported yet"
#endif
	.section .note.GNU-stack, "", %progbits
