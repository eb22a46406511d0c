# Going back, what an event is told of is told of where a checkpoint was made right behind that event, too.
# program: writes_between_children.c
handle SIGUSR1 nostop noprint
break main
continue
delete
watch-if total total > 12502503
continue
#> Hardware watchpoint
delete
watch total
continue
reverse-continue
delete
seek end
catch fork
reverse-continue
#> forked process
print total / 12502500
#> = 9
reverse-continue
#> forked process
print total / 12502500
#> = 5
reverse-continue
#> forked process
print handled
#> = 1
reverse-continue
#> No more reverse-execution history
