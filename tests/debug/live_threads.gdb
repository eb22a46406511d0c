# Threads of a program that runs: breakpoints and watchpoints stop whichever thread comes to them.
# program: threads.c
# modes: live
break finished
tbreak work
continue
#> work (argument=
watch counter
continue
#> counter
#> Old value = 0
continue
#> Old value = 
delete 3
break finished
continue
#> finished ()
print counter
#> = 9
checkpoint
#> Checkpoint 1
watch counter
reverse-continue
#> New value = 
delete
rollback
#> finished ()
continue
#> 9 22 7
