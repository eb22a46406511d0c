# The agent: what the recorder and the replayer map at AGENT_BASE into every address space.
#
# It is also the replayer's stub: the same ELF file is exec'd, parks itself, and everything else is unmapped.
# The addresses after the first two `syscall` instructions below are what the seccomp filters compare with, so
# nothing else of this file may contain such an instruction (a test disassembles it), but for the third, which
# stops like any other.

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
