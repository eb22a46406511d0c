# Back from a call that a handler makes: its signal was before that, though nothing but it has happened since.
# program: signal_behind_catch.c
catch syscall write
continue
#> Program received signal SIGUSR1
continue
#> Catchpoint 1 (call to syscall write)
reverse-continue
#> Program received signal SIGUSR1
print handled
#> = 0
