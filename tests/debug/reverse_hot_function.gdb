# A breakpoint in a function that is called often, from far behind: in steps that grow, not event by event; then call by call, without a search each
# time; over calls that are to be ignored; and from the middle of the function to its begin. All in seconds: a transcript takes no longer than a minute.
# program: hot_function.c
# modes: no-hooks
break 36
continue
#> puts("end");
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
