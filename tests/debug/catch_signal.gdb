# A signal with a handler.
# program: signals.c
catch signal SIGUSR1
continue
#> Catchpoint 1 (signal SIGUSR1)
print handled
#> = 0
up
print $_siginfo.si_signo
#> = 10
tbreak on_user
continue
#> on_user (number=10)
next
next
print handled
#> = 10
