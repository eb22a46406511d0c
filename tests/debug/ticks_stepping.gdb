# A recording by single steps: watchpoints, and a condition whose arrivals may not be counted by code of ours, which has branches of its own.
# program: basics.c
# record: --ticks=stepping
# modes: hooks
break add if a == 8 && b == 1
continue
#> Breakpoint 1, add (a=8, b=1)
watch total
continue
#> Old value =
#> New value =
reverse-continue
#> Old value =
#> New value =
delete
continue
#> it exited with status
reverse-continue
#> No more reverse-execution history
