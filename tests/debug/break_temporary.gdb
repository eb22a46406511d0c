# A temporary breakpoint stops once; start stops in main.
# program: basics.c
tbreak add
#> Temporary breakpoint 1
continue
#> Temporary breakpoint 1, add (a=0, b=0)
info breakpoints
#> No breakpoints
tbreak main
reverse-continue
#> ! add
#> ~ Temporary breakpoint 2.* main
