# step goes into functions, next over them, until and advance to lines, stepi and nexti by instructions.
# program: basics.c
tbreak twice
continue
#> int first = add(value, value);
step
#> add (a=0, b=0)
#> int sum = a + b;
next
#> total = sum;
next
#> return sum;
next
#> }
step
#> twice (value=0)
#> int second
next
#> return second;
print second
#> = 1
tbreak twice
continue
advance add
#> add (a=1, b=1)
#> int sum
until 10
#> return sum;
up
#> twice (value=1)
down
print/x $pc
#> = 0x
stepi
#> 11
nexti
x/i $pc
#> ret
nexti
#> twice (value=1)
