# Calls after having gone backwards, and going backwards after calls.
# program: callee.c
handle SIGUSR1 nostop noprint
break add
continue
continue
continue
#> add (a=3, b=3)
print joined("x", "y")
#> "xy"
print calls
#> = 2
reverse-continue
#> add (a=2, b=2)
delete
print add(a, 10)
#> = 12
print calls
#> = 1
reverse-stepi
print add(a, 10)
#> = 12
stepi
watch calls
continue
#> Old value = 1
#> New value = 2
print add(1, 1)
#> = 2
print calls
#> = 2
back
print calls
#> = 1
reverse-continue
#> New value = 0
