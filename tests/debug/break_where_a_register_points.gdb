# Places in a computation are known by what the task works with; text in which there is a breakpoint may be a part of that.
# program: ticking.c
# modes: hooks no-hooks software
handle SIGALRM nostop noprint pass
break called
continue
#> Breakpoint 1,
continue
#> Breakpoint 1,
continue
#> Breakpoint 1,
print rings > 0
#> = 1
reverse-continue
#> Breakpoint 1,
delete
continue
#> reverse-execution history
