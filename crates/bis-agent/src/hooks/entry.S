// The ways into and out of the hooks, and the instructions that the supervisor knows by address.
//
// A hook is entered from a trampoline, with rcx = the address after the trampoline's own instruction; rcx and r11 are
// free because the system call clobbers them. The program's stack is not touched: there may be a red zone or
// hardly any stack. Nothing runs at the same time in the same address space, so one stack and one state do for all.

#include "hooks.h"

    // struct frame, and what of it is given back.
    .macro push_frame
    pushfq
    cld
    pushq %rax
    pushq %r9
    pushq %r8
    pushq %r10
    pushq %rdx
    pushq %rsi
    pushq %rdi
    .endm
    .macro pop_frame
    popq %rdi
    popq %rsi
    popq %rdx
    popq %r10
    popq %r8
    popq %r9
    popq %rax
    .endm

    // Where this hook's entry would begin, before IN_HOOK says that there is one.
    .macro begin_log through
    movq STATE_POS, \through
    movq \through, STATE_BEGAN
    .endm

    .section .text.hooks, "ax"

    .globl hooks_enter
hooks_enter:
    begin_log %r11
    movq %rsp, STATE_RSP
    movq %rcx, STATE_DONE
    movq $1, STATE_IN_HOOK
    movl $STACK_TOP, %esp
    push_frame
    movq %rsp, %rdi
    call hooks_call
    testl %eax, %eax
    jnz 2f
    // The way through the kernel overlaps with little: a call takes as long as the longest chain of things that wait for each
    // other, here and behind. A jump that is foreseen is no part of one, so where to go on is no word in memory.
    // rcx and r11 as the processor's syscall instruction leaves them. The instruction that loads all flags takes as long
    // as the rest of this; only the usual six are worth a way of their own.
    movq 56(%rsp), %r11
    movl %r11d, %ecx
    testl $~0xad7, %ecx
    jnz 1f
    xorl %eax, %eax
    btl $11, %ecx
    setc %al
    movb %cl, %ah
    addb $0x7f, %al
    sahf
    pop_frame
    movq STATE_DONE, %rcx
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *%rcx
1:  pop_frame
    movq STATE_DONE, %rcx
    popfq
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *%rcx
2:  pop_frame
    movq STATE_DONE, %rcx
    movq (%rsp), %r11
    popfq
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmp hooks_safepoint

    // The same for the functions of the vdso that read the clock. They are called as C functions are, so the flags
    // need not be given back: afterwards they are those of the xor, whatever happened inside.
    .globl hooks_clock
hooks_clock:
    begin_log %r11
    movq %rsp, STATE_RSP
    movq %rcx, STATE_DONE
    movq $1, STATE_IN_HOOK
    movl $STACK_TOP, %esp
    push_frame
    movq %rsp, %rdi
    call hooks_time
    testl %eax, %eax
    jnz 1f
    pop_frame
    popq %r11
    xorl %ecx, %ecx
    movq STATE_DONE, %rcx
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *%rcx
1:  pop_frame
    popq %r11
    xorl %ecx, %ecx
    movq STATE_DONE, %rcx
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmp hooks_safepoint

    // The rdtsc and rdtscp instructions: rdx = the address behind the trampoline's own. Every other register, and all
    // flags, belong to the program. popfq takes longer than the rest together, so the flags come back by sahf (and an
    // addition that overflows); the direction flag, which nothing here depends on, is not touched.
    .globl hooks_rdtscp
hooks_rdtscp:
    movq %rsp, STATE_RSP
    movl $STACK_TOP, %esp
    pushfq
    pushq %rsi
    begin_log %rsi
    movl $NR_RDTSCP, %esi
    jmp 1f
    .globl hooks_rdtsc
hooks_rdtsc:
    movq %rsp, STATE_RSP
    movl $STACK_TOP, %esp
    pushfq
    pushq %rsi
    begin_log %rsi
    movl $NR_RDTSC, %esi
1:  movq %rdx, STATE_DONE
    movq $1, STATE_IN_HOOK
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %rcx
    pushq %rax
    movq %rsp, %rdi
    call hooks_counter
    movq %rax, %rdx
    movq 64(%rsp), %rax
    btl $11, %eax
    movb %al, %ah
    setc %al
    addb $0x7f, %al
    sahf
    popq %rax
    popq %rcx
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *STATE_EXIT

    // The rdrand, rdseed, rdpid and lsl instructions: rcx = the address behind the trampoline's own, the program's rcx is in the
    // state, and the selector of an lsl. Nothing is clobbered but what the instruction writes.
    .globl hooks_chance
hooks_chance:
    movq %rsp, STATE_RSP
    movq %rcx, STATE_DONE
    begin_log %rcx
    movq $1, STATE_IN_HOOK
    movl $STACK_TOP, %esp
    pushfq
    cld
    pushq %r15
    pushq %r14
    pushq %r13
    pushq %r12
    pushq %r11
    pushq %r10
    pushq %r9
    pushq %r8
    pushq %rdi
    pushq %rsi
    pushq %rbp
    pushq STATE_RSP
    pushq %rbx
    pushq %rdx
    pushq STATE_SAVED_RCX
    pushq %rax
    movq %rsp, %rdi
    call hooks_number
    popq %rax
    popq %rcx
    popq %rdx
    popq %rbx
    leaq 8(%rsp), %rsp
    popq %rbp
    popq %rsi
    popq %rdi
    popq %r8
    popq %r9
    popq %r10
    popq %r11
    popq %r12
    popq %r13
    popq %r14
    popq %r15
    popfq
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *STATE_EXIT

    // Behind an xsavec instruction: rcx = the address behind the trampoline's own copy, the program's rcx and the address of the
    // area are in the state. Nothing is clobbered, and nothing logged: what is put into the area is the same in replay.
    //
    // A task may be killed here, and nothing but its registers says how far it has come: hooks/chance.rs of the recorder
    // knows where they are. So hooks_saved uses none that a function would have to give back (build.rs).
    //
    // Behind an fnstenv or fnsave instruction it is the same. On some processors the kernel loses where the last x87
    // instruction was, and its operand, whenever it switches tasks, if no exception is pending. So it is lost each time.
    .globl hooks_fnstenv
hooks_fnstenv:
    movq %rsp, STATE_RSP
    movq %rcx, STATE_DONE
    movq $IN_FNSTENV, STATE_IN_HOOK
    jmp 1f
    .globl hooks_xsavec
hooks_xsavec:
    movq %rsp, STATE_RSP
    movq %rcx, STATE_DONE
    movq $IN_XSAVEC, STATE_IN_HOOK
1:  movl $STACK_TOP, %esp
    pushq %rax
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushfq
    .globl hooks_xsavec_kept
hooks_xsavec_kept:
    cld
    movq STATE_SAVED_R11, %rdi
    cmpq $IN_FNSTENV, STATE_IN_HOOK
    je 2f
    call hooks_saved
    jmp 3f
    // All ones if the summary bit of the status word is set: an exception is pending, and nothing is lost.
2:  movl 4(%rdi), %eax
    shll $24, %eax
    sarl $31, %eax
    andl %eax, 12(%rdi)
    andl %eax, 16(%rdi)
    andl %eax, 20(%rdi)
    andw %ax, 24(%rdi)
3:  popfq
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rax
    movq STATE_SAVED_RCX, %rcx
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *STATE_DONE

    // The cpuid instruction: rdx = the address behind the trampoline's own, which is two bytes long. Answered from the
    // table, if that has the question; nothing is logged, because the table is the same in replay.
    //
    // A task that has to stop here is taken out by hand: hooks/chance.rs of the recorder knows what is where.
    .globl hooks_cpuid
hooks_cpuid:
    movq %rsp, STATE_RSP
    movq %rdx, STATE_EXIT
    movq $1, STATE_IN_HOOK
    movl $STACK_TOP, %esp
    pushfq
    pushq %rsi
    pushq %rdi
    .globl hooks_cpuid_kept
hooks_cpuid_kept:
    movl $CPUID_BASE, %esi
    movl (%rsi), %edi
    addq $8, %rsi
1:  subl $1, %edi
    js 4f
    cmpl %eax, (%rsi)
    jne 2f
    cmpl $-1, 4(%rsi)
    je 3f
    cmpl %ecx, 4(%rsi)
    je 3f
2:  addq $24, %rsi
    jmp 1b
    .globl hooks_cpuid_found
hooks_cpuid_found:
3:  movl 8(%rsi), %eax
    movl 12(%rsi), %ebx
    movl 16(%rsi), %ecx
    movl 20(%rsi), %edx
    jmp 5f
    .globl hooks_cpuid_left
hooks_cpuid_left:
4:  subq $2, STATE_EXIT
5:  popq %rdi
    popq %rsi
    popfq
    movq STATE_RSP, %rsp
    movq $0, STATE_IN_HOOK
    jmpq *STATE_EXIT

    // Of the 64 bytes to which the kernel returns the processor foresees no jump, and a `ret` among them takes 7 ns: so the
    // system call lies near their end, and what jumps afterwards lies in the next ones.
    .p2align 6, 0xcc
    .skip 18, 0xcc

    // What (const u64 *args, u64 nr) say goes where a system call has it.
    .macro load_call
    movq %rsi, %rax
    movq 32(%rdi), %r8
    movq 40(%rdi), %r9
    movq 24(%rdi), %r10
    movq 16(%rdi), %rdx
    movq 8(%rdi), %rsi
    movq (%rdi), %rdi
    .endm

    // i64 hooks_make(const u64 *args, u64 nr): the call, unless the supervisor said not to. Where a signal finds
    // the task between hooks_make_check and hooks_syscall, the supervisor sends it to hooks_bailed.
    .globl hooks_make
hooks_make:
    load_call
    .globl hooks_make_check
hooks_make_check:
    cmpq $0, STATE_BAIL
    jne hooks_bailed
    .globl hooks_syscall
hooks_syscall:
    syscall
    .globl hooks_syscall_end
hooks_syscall_end:
    movq $2, STATE_PHASE
    ret
    .globl hooks_bailed
hooks_bailed:
    movq $BAILED, %rax
    ret

    // u64 hooks_copy(void *to, const void *from, u64 len): 0, or 1 where memory is not there: the supervisor sends
    // a fault between hooks_copy and hooks_copy_fault to the latter. String instructions take long to begin.
    .globl hooks_copy
hooks_copy:
    cmpq $8, %rdx
    jb 6f
    cmpq $64, %rdx
    ja 3f
    subq $8, %rdx
1:  movq (%rsi), %rcx
    movq %rcx, (%rdi)
    addq $8, %rsi
    addq $8, %rdi
    subq $8, %rdx
    jae 1b
    addq $8, %rdx
6:  movl %edx, %ecx
    jrcxz 4f
5:  movb (%rsi), %al
    movb %al, (%rdi)
    incq %rsi
    incq %rdi
    decl %ecx
    jnz 5b
4:  xorl %eax, %eax
    ret
3:  movq %rdx, %rcx
    rep movsb
    xorl %eax, %eax
    ret

    // u64 hooks_touch(void *at, u64 len): 0, or 1 where a page of it cannot be written.
    .globl hooks_touch
hooks_touch:
    leaq -1(%rdi,%rsi), %rdx
6:  orb $0, (%rdi)
    addq $4096, %rdi
    cmpq %rdx, %rdi
    jb 6b
    orb $0, (%rdx)
    xorl %eax, %eax
    ret

    // u64 hooks_put(void *to, u64 first, u64 second): the same for two words.
    .globl hooks_put
hooks_put:
    movq %rsi, (%rdi)
    movq %rdx, 8(%rdi)
    xorl %eax, %eax
    ret
    .globl hooks_copy_fault
hooks_copy_fault:
    movl $1, %eax
    ret

    // The program has all its registers but for rax, which is in the state; only the supervisor leads on from
    // here. A system call and no int3, because a program may block SIGTRAP.
    // The same, where rcx and r11 are the program's, too.
    .globl hooks_safepoint_whole
hooks_safepoint_whole:
    movq %rcx, STATE_SAVED_RCX
    movq %r11, STATE_SAVED_R11
    movq $1, STATE_WHOLE
    .globl hooks_safepoint
hooks_safepoint:
    movq %rax, STATE_SAVED_RAX
    movl $SAFEPOINT, %eax
    syscall
    .globl hooks_safepoint_end
hooks_safepoint_end:
    ud2

    // i64 hooks_change(const u64 *args, u64 nr): in replay, a call that changes the address space. If it stops, the supervisor lets
    // it be made where the log says so.
    .globl hooks_change
hooks_change:
    load_call
    syscall
    .globl hooks_change_end
hooks_change_end:
    ret

    // The replayed program made another call than the recorded one.
    .globl hooks_diverged
hooks_diverged:
    int3
    jmp hooks_diverged

    .section .note.GNU-stack, "", @progbits
