// cflags: -nostdlib -static
// No libc at all: write and exit by hand, with the registers that a call must keep checked in between.
        .globl _start
_start: cmpq $1, (%rsp)
        jne fail
        movq $0x1122334455667788, %rbx
        movq $0x99aabbccddeeff00, %r12
        movq %rbx, %xmm5
        movl $39, %eax
        syscall
        movq %rax, %r13
        movl $39, %eax
        syscall
        cmpq %rax, %r13
        jne fail
        movq $0x1122334455667788, %rax
        cmpq %rax, %rbx
        jne fail
        movq %xmm5, %rcx
        cmpq %rax, %rcx
        jne fail
        movl $1, %eax
        movl $1, %edi
        leaq text(%rip), %rsi
        movl $9, %edx
        syscall
        cmpq $9, %rax
        jne fail
        leaq after(%rip), %rax
        movl $39, %eax
        syscall
after:  leaq after(%rip), %rax
        cmpq %rax, %rcx
        jne fail
        pushfq
        popq %rdx
        xorl %edi, %edi
        movl $231, %eax
        syscall
fail:   movl $1, %edi
        movl $60, %eax
        syscall
        .section .rodata
text:   .ascii "guest ok\n"
        .section .note.GNU-stack,"",@progbits
