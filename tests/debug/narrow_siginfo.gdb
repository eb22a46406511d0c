# What the kernel says of a signal has the layout of the program's own width.
# program: crash.c
# cflags: -m32 -O0 -pthread
# needs: /usr/lib32/crt1.o
# modes: hooks no-hooks
continue
#> Program received signal SIGSEGV
print $_siginfo.si_signo
#> = 11
print $_siginfo._sifields._sigfault.si_addr
#> (void *) 0x4
