# reverse-finish leads to the call.
# program: basics.c
break basics.c:10
continue
#> return sum;
reverse-finish
#> twice (value=0)
#> int first = add(value, value);
x/i $pc
#> call
reverse-finish
#> main ()
#> twice(i);
x/i $pc
#> call
