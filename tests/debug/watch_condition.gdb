# watch with a condition, and watch-if, whose condition the server evaluates.
# program: calls.c
tbreak main
continue
watch made if made == 7
continue
#> Hardware watchpoint 2: made
#> Old value = 6
#> New value = 7
delete
watch-if made made == 150
#> Hardware watchpoint 3: -location made
continue
#> Hardware watchpoint 3
#> ! Old value
#> New value = 150
continue
#> exited with status 0
reverse-continue
#> New value = 1
watch-if made
#> Usage: watch-if EXPR COND
