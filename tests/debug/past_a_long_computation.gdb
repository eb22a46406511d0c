# A place in a loop that runs for long is looked for by a jump; marks on the way there must not be in its way.
# program: computing_long.c
# modes: hooks no-hooks software
handle SIGALRM nostop noprint pass
break done
continue
#> Breakpoint 1,
print rung
#> = 1
