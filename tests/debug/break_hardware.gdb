# Hardware breakpoints; there may be many, because they are none.
# program: basics.c
hbreak add
#> Hardware assisted breakpoint 1 at
hbreak twice
hbreak main
thbreak printf
hbreak basics.c:10
continue
#> Breakpoint 3, main ()
continue
#> Breakpoint 2, twice (value=0)
continue
#> Breakpoint 1, add (a=0, b=0)
reverse-continue
#> Breakpoint 2, twice (value=0)
