# From a breakpoint in a function to the begin, past the twenty million times that it was called before, at none of which anybody wants to stop:
# the place is named by its arrival, and arrivals in front of the last event are not asked for.
# program: hot_function.c
# modes: no-hooks
tbreak 36
continue
#> sum += hot(5);
tbreak hot
continue
#> hot (x=5)
reverse-continue
#> No more reverse-execution history
