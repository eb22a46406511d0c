# Conditions, which the server evaluates, forwards and backwards.
# program: basics.c
# modes: hooks no-hooks software
break add if a == 3 && b == 3
continue
#> Breakpoint 1, add (a=3, b=3)
condition 1 total > 7
continue
#> Breakpoint 1, add (a=8, b=1)
#> int sum
print total
#> = 8
condition 1 b == 1 && a < 4
reverse-continue
#> Breakpoint 1, add (a=2, b=1)
reverse-continue
#> Breakpoint 1, add (a=1, b=1)
reverse-continue
#> Breakpoint 1, add (a=0, b=1)
reverse-continue
#> No more reverse-execution history
