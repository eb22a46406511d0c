# From the end of a crash, the signal that has ended the process is known.
# program: crash.c
# replay: -e
print $_siginfo.si_signo
#> = 11
print $_siginfo._sifields._sigfault.si_addr
#> (void *) 0x8
continue
#> SIGSEGV killed it
print $_siginfo.si_signo
#> = 11
reverse-stepi
print $_siginfo.si_signo
#> = 5
continue
#> Program received signal SIGSEGV
print $_siginfo._sifields._sigfault.si_addr
#> (void *) 0x8
