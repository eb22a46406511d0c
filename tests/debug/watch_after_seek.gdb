# After a jump (seek, back, restart, run) a watchpoint's old value is the one that was there, not the one that gdb has seen last.
# program: basics.c
tbreak main
continue
watch total
continue
#> Old value = 0
#> New value = 1
checkpoint
continue
#> Old value = 1
#> New value = 2
continue
#> Old value = 2
#> New value = 3
seek start
#> ! Hardware watchpoint 2: total
continue
#> Old value = 0
#> New value = 1
continue
continue
continue
#> New value = 4
restart 1
continue
#> Old value = 1
#> New value = 2
continue
back
#> ! deleted
reverse-continue
#> Old value = 2
#> New value = 1
seek end
reverse-continue
#> Old value = 9
#> New value = 8
break add if a == 8
run
continue
#> Old value = 0
#> New value = 1
info breakpoints
#> hw watchpoint
