# A breakpoint in a function that is called often, from far behind: in steps that grow, not event by event; then call by call, without a search each
# time; over calls that are to be ignored; and from the middle of the function to its begin.
# At last from a later call to the begin of all, past the others, at none of which anybody wants to stop. All in seconds: a transcript takes no longer than a minute.
# program: hot_function.c
# modes: no-hooks
break 36
continue
#> sum += hot(5);
delete
break hot
reverse-continue
#> hot (x=19999999)
reverse-continue
#> hot (x=19999998)
reverse-continue
#> hot (x=19999997)
print calls
#> = 19999997
reverse-continue 20
#> Will ignore next 19 crossings of breakpoint 2
#> hot (x=19999977)
stepi
reverse-continue
#> hot (x=19999977)
reverse-continue
#> hot (x=19999976)
continue
#> hot (x=19999977)
reverse-continue
#> hot (x=19999976)
tbreak leaf
reverse-continue
#> leaf (x=19999976)
delete
finish
#> Run till exit
reverse-finish
#> hot(i);
print i
#> = 19999975
tbreak 36
continue
#> sum += hot(5);
tbreak hot
continue
#> hot (x=5)
delete
reverse-continue
#> No more reverse-execution history
