# Stepping over the instruction that raises a signal leads into the handler only by a breakpoint; stepi from the stop does.
# program: signals.c
continue
#> Program received signal SIGUSR1
stepi
#> on_user
finish
#> <signal handler called>
