# Backwards through a signal's handler.
# program: signals.c
# modes: hooks no-hooks software
handle SIGUSR1 nostop noprint pass
handle SIGSEGV nostop noprint pass
break signals.c:28
continue
#> handled = 100;
print handled
#> = 10
reverse-next
#> raise(SIGUSR1);
print handled
#> = 0
next
#> handled = 100;
print handled
#> = 10
break on_user
reverse-continue
#> Breakpoint 2, on_user (number=10)
backtrace
#> <signal handler called>
#> main ()
reverse-finish
delete
tbreak on_fault
continue
#> on_fault (number=11)
print handled
#> = 100
reverse-continue
#> No more
