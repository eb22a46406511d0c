# Commands with counts, in both directions, and nexti back over a call.
# program: basics.c
break add
continue
continue 3
#> Will ignore next 2 crossings
#> add (a=2, b=1)
continue 2
#> add (a=4, b=1)
reverse-continue 3
#> add (a=1, b=1)
delete
break basics.c:15
continue
#> twice (value=2)
next 2
#> return second;
reverse-next 2
#> basics.c:15
stepi 4
reverse-stepi 4
#> basics.c:15
nexti 6
set $after = $pc
reverse-nexti 6
#> basics.c:15
nexti 6
print $pc == $after
#> = 1
advance 17
#> return second;
reverse-step
#> add (
reverse-finish
#> twice
