# At the end of the process going on stays there, and going back leads away from it.
# program: basics.c
continue
#> it exited with status 3
#> No more reverse-execution history
continue
#> No more reverse-execution history
stepi
#> No more reverse-execution history
print total
#> = 9
break add
reverse-continue
#> Breakpoint 1, add (a=8, b=1)
