# rbreak puts breakpoints on several functions.
# program: basics.c
rbreak ^t.*ice$
#> Breakpoint 1 at
rbreak basics.c:^add$
#> Breakpoint 2 at
continue
#> Breakpoint 1, twice (value=0)
continue
#> Breakpoint 2, add (a=0, b=0)
