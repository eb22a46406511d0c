# Signals are caught in both directions, with and without a handler's frame in between.
# program: signals.c
catch signal SIGUSR1 SIGSEGV
continue
#> Catchpoint 1 (signal SIGUSR1)
tbreak on_user
continue
#> on_user (number=10)
set $first = handled
continue
#> Catchpoint 1 (signal SIGSEGV)
#> main ()
stepi
#> on_fault
reverse-stepi
#> main ()
reverse-continue
#> Catchpoint 1 (signal SIGUSR1)
print handled == $first
#> = 1
reverse-continue
#> No more reverse-execution history
