# finish shows what functions return.
# program: basics.c
break add if b == 1
continue
#> add (a=0, b=1)
finish
#> Run till exit
#> twice (value=0)
#> Value returned is $1 = 1
continue
#> add (a=1, b=1)
finish
#> Value returned is $2 = 2
print $ + 1
#> = 3
