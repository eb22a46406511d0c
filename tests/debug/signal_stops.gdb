# A signal stops the program in front of its handler, forwards and backwards.
# program: signals.c
continue
#> Program received signal SIGUSR1
continue
#> Program received signal SIGSEGV
#> *(volatile int *)8 = 1;
print $_siginfo._sifields._sigfault.si_addr
#> = (void *) 0x8
print handled
#> = 100
reverse-continue
#> Program received signal SIGUSR1
print handled
#> = 0
