# A breakpoint on a function stops in front of its first line each time, and the program ends by itself.
# program: basics.c
break add
#> Breakpoint 1 at
continue
#> Breakpoint 1, add (a=0, b=0)
#> int sum = a + b;
backtrace
#> #0  add (a=0, b=0)
#> #1
#> twice (value=0)
#> main ()
continue 3
#> Will ignore next 2 crossings
#> Breakpoint 1, add (a=2, b=1)
info breakpoints
#> breakpoint already hit 4 times
delete
continue
#> total 9
#> it exited with status 3
print total
#> = 9
