// rdtsc and rdtscp change rax, rdx (and rcx), and nothing else: no other register, no flag, no byte below the stack
// pointer.
    .text
    .globl main
    .type main, @function
main:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    sub $8, %rsp
    lea flags(%rip), %r15
1:  mov (%r15), %r14
    cmp $-1, %r14
    je 9f
    mov $0x1122334455667788, %rbx
    lea 1(%rbx), %rbp
    lea 2(%rbx), %rsi
    lea 3(%rbx), %rdi
    lea 4(%rbx), %r8
    lea 5(%rbx), %r9
    lea 6(%rbx), %r10
    lea 7(%rbx), %r11
    lea 8(%rbx), %r12
    lea 9(%rbx), %rcx
    mov %rbx, -8(%rsp)
    mov %rbp, -64(%rsp)
    mov %r8, -128(%rsp)
    // The flags by way of memory that is not the red zone.
    mov %rsp, saved(%rip)
    lea stack_end(%rip), %rsp
    push %r14
    popfq
    mov saved(%rip), %rsp
    call_rdtsc:
    rdtsc
    mov %rsp, %r13
    lea stack_end(%rip), %rsp
    pushfq
    pop %rdx
    cld
    mov %r13, %rsp
    cmp saved(%rip), %rsp
    jne 8f
    xor %r14, %rdx
    and $0xcd5, %rdx
    jnz 8f
    lea 9(%rbx), %rax
    cmp %rax, %rcx
    jne 8f
    call check
    jne 8f
    // The same with rdtscp, whose rcx is the core.
    mov %rsp, saved(%rip)
    lea stack_end(%rip), %rsp
    push %r14
    popfq
    mov saved(%rip), %rsp
    rdtscp
    mov %rsp, %r13
    lea stack_end(%rip), %rsp
    pushfq
    pop %rdx
    cld
    mov %r13, %rsp
    xor %r14, %rdx
    and $0xcd5, %rdx
    jnz 8f
    shr $32, %rcx
    jnz 8f
    call check
    jne 8f
    add $8, %r15
    jmp 1b
8:  mov $1, %eax
    jmp 10f
9:  lea good(%rip), %rdi
    call puts@PLT
    xor %eax, %eax
10: add $8, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret

// Equal if the registers and the red zone (which has moved up by this call's own address) are as they were.
check:
    mov $0x1122334455667788, %rax
    cmp %rax, %rbx
    jne 1f
    inc %rax
    cmp %rax, %rbp
    jne 1f
    cmp %rax, -56(%rsp)
    jne 1f
    inc %rax
    cmp %rax, %rsi
    jne 1f
    inc %rax
    cmp %rax, %rdi
    jne 1f
    inc %rax
    cmp %rax, %r8
    jne 1f
    cmp %rax, -120(%rsp)
    jne 1f
    inc %rax
    cmp %rax, %r9
    jne 1f
    inc %rax
    cmp %rax, %r10
    jne 1f
    inc %rax
    cmp %rax, %r11
    jne 1f
    inc %rax
    cmp %rax, %r12
1:  ret

    .section .rodata
good:
    .asciz "guest ok"
    .balign 8
    // Nothing; carry; parity, zero and sign; overflow; all of them; backwards.
flags:
    .quad 2, 3, 0xc6, 0x802, 0x8d7, 0x402, -1
    .bss
    .balign 16
saved:
    .zero 8
    .zero 512
stack_end:
    .zero 64
    .section .note.GNU-stack, "", @progbits
