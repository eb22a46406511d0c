# System calls that are caught, and a signal, in a program that runs.
# program: signals.c
# modes: live
catch syscall rt_sigaction
continue
#> call to syscall rt_sigaction
continue
#> returned from syscall rt_sigaction
delete
continue
#> Program received signal SIGUSR1
continue
#> Program received signal SIGSEGV
print handled
#> = 100
reverse-continue
#> Program received signal SIGUSR1
continue
continue
#> exited with status
