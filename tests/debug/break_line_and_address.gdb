# Breakpoints at a source line and at an address.
# program: basics.c
break basics.c:16
#> Breakpoint 1 at
break *add
#> Breakpoint 2 at
continue
#> Breakpoint 2, add
print/x $pc == &add
#> = 0x1
continue
#> Breakpoint 1, twice (value=0)
#> 16
#> int second = add(first, 1);
disable 2
continue
#> Breakpoint 1, twice (value=1)
#> ! Breakpoint 2
print first
#> = 2
