# Ignore counts.
# program: basics.c
break add
ignore 1 5
#> Will ignore next 5 crossings
continue
#> Breakpoint 1, add (a=4, b=1)
info breakpoints
#> already hit 6 times
