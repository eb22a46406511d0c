# Backwards by lines: into functions and over them.
# program: basics.c
# modes: hooks no-hooks software
break basics.c:17
continue
#> return second;
reverse-next
#> int second = add(first, 1);
reverse-next
#> int first = add(value, value);
next
#> int second
next
#> return second;
reverse-step
#> add (a=0, b=1)
#> }
reverse-step
#> return sum;
reverse-step
#> total = sum;
reverse-step
#> int sum = a + b;
reverse-step
#> twice (value=0)
#> int second
reverse-finish
#> main ()
#> twice(i);
