// rdtsc where there is no room for a jump, where a branch leads right behind it, where one leads to its second
// instruction, where its bytes are inside of another instruction, and that instruction's inside reached by a jump.
    .text
    .globl main
    .type main, @function
main:
    push %rbx
    push %r12
    push %r13
    xor %ebx, %ebx
    // A loop whose body is the instruction alone, entered behind it too.
    mov $50, %r12d
    jmp 2f
1:  rdtsc
2:  dec %r12d
    jnz 1b
    call take
    // The same entered at the instruction that follows at once.
    mov $50, %r12d
    jmp 4f
3:  rdtscp
4:  sub $1, %r12d
    jns 3b
    call take
    call short
    call take
    // Data of an instruction: never executed as what it looks like.
    mov $0x310f, %ecx
    cmp $0xf9010f, %ecx
    je 8f
    // And here it is: the constant is jumped into.
    call hidden + 1
    call take
    test %rbx, %rbx
    jz 8f
    lea good(%rip), %rdi
    call puts@PLT
    xor %eax, %eax
    jmp 9f
8:  mov $1, %eax
9:  pop %r13
    pop %r12
    pop %rbx
    ret
    .size main, . - main

    // The counter in rdx:rax must have gone up.
    .type take, @function
take:
    shl $32, %rdx
    mov %eax, %eax
    or %rax, %rdx
    cmp %rbx, %rdx
    jbe 1f
    mov %rdx, %rbx
    ret
1:  ud2
    .size take, . - take

    .balign 16
    .type short, @function
short:
    rdtsc
    ret
    .size short, . - short

    .type hidden, @function
hidden:
    // mov $0xc3310f, %eax is rdtsc; ret from its second byte on.
    mov $0xc3310f, %eax
    ret
    .size hidden, . - hidden

    .section .rodata
good:
    .asciz "guest ok"
    .section .note.GNU-stack, "", @progbits
