# A line whose loop goes round for very long is gone over as fast as the program runs, and not step by step: one that computes, one that is left
# by a return, one with a call in each round, and one in which a signal comes. A transcript takes no longer than a minute.
# program: loop_on_a_line.c
# modes: hooks no-hooks
break 23
continue
#> i < 50000000
next
#> sum = first_above
step
#> i * i > limit
next
#> }
finish
#> = 20000001
next
#> getppid
print sum
#> = 20000001
next
#> raise
print sum
#> = 20002001
next
#> SIGUSR1
print sum
#> = 30000000
break on_usr1
continue
#> on_usr1 (signal=10)
tbreak 27
continue
#> puts("end");
print handled
#> = 10
reverse-continue
#> on_usr1 (signal=10)
delete 2
reverse-continue
#> SIGUSR1
reverse-continue
#> i < 50000000
