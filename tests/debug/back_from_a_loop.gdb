# From the last rounds of a long loop, to which steps back have led, to the begin: what the place is called by is
# counted by the program itself, wherever in the round it is.
# program: long_loop.c
# modes: hooks no-hooks software
break done
continue
#> Breakpoint 1
delete
reverse-stepi
reverse-stepi
reverse-stepi
reverse-stepi
reverse-stepi
reverse-stepi
x/i $pc
#> main
reverse-continue
#> No more reverse-execution history
tbreak done
continue
#> Temporary breakpoint 2
reverse-stepi
reverse-stepi
reverse-stepi
reverse-stepi
reverse-stepi
x/i $pc
#> main
tbreak main
reverse-continue
#> Temporary breakpoint 3
print sum
#> = 0
