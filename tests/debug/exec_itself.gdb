# A program that executes itself: both images, forwards and backwards.
# program: again.c
break begins
continue
#> Breakpoint 1, begins ()
print round_number
#> = 0
continue
#> is executing new program
#> Breakpoint 1, begins ()
print round_number
#> = 1
continue
#> executed
#> exited with status 0
reverse-continue
#> Breakpoint 1, begins ()
print round_number
#> = 1
reverse-continue
#> Breakpoint 1, begins ()
print round_number
#> = 0
reverse-continue
#> No more reverse-execution history
