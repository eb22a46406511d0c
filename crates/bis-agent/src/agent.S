# The agent: what the recorder and the replayer map at AGENT_BASE into every address space.
#
# It is also the replayer's stub: the same ELF file is exec'd, parks itself, and everything else is unmapped.
# The addresses after the first three `syscall` instructions below are what the seccomp filters compare with,
# so nothing else of this file may contain such an instruction (a test disassembles it), but for the last two,
# which stop like any other.

    .section .text.agent, "ax"

    # The supervisor's own system calls in the task: `rip` is set here with the call in the registers, and
    # the int3 gives control back.
    .globl bis_untraced
    .type bis_untraced, @function
bis_untraced:
    syscall
    .globl bis_untraced_end
bis_untraced_end:
    int3
    jmp bis_untraced

    # Several of them: the list of calls is at rbx and ends at r12. Each has its number, six arguments, and
    # what it must return; the first that returns something else is the last one. The int3 gives control back.
    # Above the number, bits say that the call makes a descriptor, whichever, which stays in r13 (SERIES_MAKES), or that
    # it has that one as its first or its fifth argument.
    .balign 16
    .globl bis_series
    .type bis_series, @function
bis_series:
    cmp %r12, %rbx
    je bis_series_out
    mov (%rbx), %eax
    mov 4(%rbx), %ecx
    mov 8(%rbx), %rdi
    mov 16(%rbx), %rsi
    mov 24(%rbx), %rdx
    mov 32(%rbx), %r10
    mov 40(%rbx), %r8
    mov 48(%rbx), %r9
    test $2, %ecx                   # SERIES_TAKES_FIRST
    cmovnz %r13, %rdi
    test $4, %ecx                   # SERIES_TAKES_FIFTH
    cmovnz %r13, %r8
    syscall
    .globl bis_series_end
bis_series_end:
    testb $1, 4(%rbx)               # SERIES_MAKES
    jz 1f
    test %rax, %rax
    js bis_series_out
    mov %rax, %r13
    jmp 2f
1:  cmp 56(%rbx), %rax
    jne bis_series_out
2:  add $64, %rbx
    jmp bis_series
    .globl bis_series_out
bis_series_out:
    int3
    jmp bis_series_out

    # A task that waits for its next supervisor: it sleeps in pause() without a tracer, and without a core.
    .balign 16
    .globl bis_park
    .type bis_park, @function
bis_park:
    mov $34, %eax                   # __NR_pause
    syscall
    .globl bis_park_end
bis_park_end:
    jmp bis_park

    # The call that a 32-bit program's call becomes: the supervisor sets `rip` here, and takes the task back
    # behind it.
    .balign 16
    .globl bis_narrow
    .type bis_narrow, @function
bis_narrow:
    syscall
    .globl bis_narrow_end
bis_narrow_end:
    int3
    jmp bis_narrow

    # A process puts its memory back: the supervisor sets `rip` here, and the int3 at the end gives control back.
    # r8: a table of the parts, each its first address and the one behind it; ended by a 0. Parts are whole pages.
    # rsi: what they are to hold, one behind the other.
    # r9: where each block of 64 bytes that did not hold that is noted: its address, and a bit for each byte that it
    # held, the first byte's lowest.
    # Changes rax, rcx, rdx, rdi, r10, r11, and xmm0 to xmm11, beside these.
    .balign 16
    .globl bis_put_back
    .type bis_put_back, @function
bis_put_back:
    mov (%r8), %rdi
    mov 8(%r8), %rdx
    add $16, %r8
    test %rdi, %rdi
    jz bis_put_back_end
    .balign 16
1:  movdqa (%rsi), %xmm0
    movdqa 16(%rsi), %xmm1
    movdqa 32(%rsi), %xmm2
    movdqa 48(%rsi), %xmm3
    movdqa (%rdi), %xmm4
    movdqa 16(%rdi), %xmm5
    movdqa 32(%rdi), %xmm6
    movdqa 48(%rdi), %xmm7
    movdqa %xmm4, %xmm8
    movdqa %xmm5, %xmm9
    movdqa %xmm6, %xmm10
    movdqa %xmm7, %xmm11
    pcmpeqb %xmm0, %xmm8
    pcmpeqb %xmm1, %xmm9
    pcmpeqb %xmm2, %xmm10
    pcmpeqb %xmm3, %xmm11
    pand %xmm9, %xmm8
    pand %xmm11, %xmm10
    pand %xmm10, %xmm8
    pmovmskb %xmm8, %eax
    cmp $0xffff, %eax
    jne 3f
2:  add $64, %rsi
    add $64, %rdi
    cmp %rdx, %rdi
    jb 1b
    jmp bis_put_back
3:  movdqa %xmm0, (%rdi)
    movdqa %xmm1, 16(%rdi)
    movdqa %xmm2, 32(%rdi)
    movdqa %xmm3, 48(%rdi)
    pcmpeqb %xmm0, %xmm4
    pcmpeqb %xmm1, %xmm5
    pcmpeqb %xmm2, %xmm6
    pcmpeqb %xmm3, %xmm7
    pmovmskb %xmm4, %eax
    pmovmskb %xmm5, %ecx
    pmovmskb %xmm6, %r10d
    pmovmskb %xmm7, %r11d
    shl $16, %ecx
    shl $32, %r10
    shl $48, %r11
    or %ecx, %eax
    or %r11, %r10
    or %r10, %rax
    mov %rdi, (%r9)
    mov %rax, 8(%r9)
    add $16, %r9
    jmp 2b
    .globl bis_put_back_end
bis_put_back_end:
    int3
    jmp bis_put_back

    # A process copies some of its memory: the supervisor sets `rip` here, and the int3 at the end gives control back.
    # r8: a table of the parts, as that of `bis_put_back`.
    # rdi: where they are copied to, one behind the other.
    # Changes rcx and rsi beside these, and the direction flag.
    .balign 16
    .globl bis_copy_out
    .type bis_copy_out, @function
bis_copy_out:
    cld
1:  mov (%r8), %rsi
    mov 8(%r8), %rcx
    add $16, %r8
    test %rsi, %rsi
    jz bis_copy_out_end
    sub %rsi, %rcx
    rep movsb
    jmp 1b
    .globl bis_copy_out_end
bis_copy_out_end:
    int3
    jmp bis_copy_out

    # Calls of the supervisor's in a row, where each stops at its entry: what one has returned is in rbx at
    # the next, which the supervisor makes into another one or skips. (The result cannot be its number: the
    # kernel lets the calls `uretprobe` and `uprobe`, 335 and 336, through every filter.)
    .balign 16
    .globl bis_row
    .type bis_row, @function
bis_row:
    syscall
    .globl bis_row_end
bis_row_end:
    mov %rax, %rbx
    mov $39, %eax                   # __NR_getpid
    jmp bis_row

    # The stub's entry: tell whoever exec'd us that we are there.
    .balign 16
    .globl bis_stub
    .type bis_stub, @function
bis_stub:
    int3
    jmp bis_stub

    # What the hooks' memory is called in /proc/PID/maps.
    .balign 8
    .globl bis_memfd_name
bis_memfd_name:
    .asciz "bis"

    .section .note.GNU-stack, "", @progbits
