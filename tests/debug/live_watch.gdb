# Watchpoints on a program that runs, forwards and, in what it has done, backwards.
# program: live.c
# modes: live
# status: 7
break main
continue
#> main () at
watch total
continue
#> Old value = 0
#> New value = 55
continue
#> ! round 2
#> round 1: 55
#> Old value = 55
#> New value = 265
print total
#> = 265
reverse-continue
#> Old value = 265
#> New value = 55
reverse-continue
#> Old value = 55
#> New value = 0
continue
#> ! round
#> New value = 55
continue
#> ! round
#> New value = 265
continue
#> round 2: 210
#> Old value = 265
#> New value = 730
delete
continue
#> round 3: 465
#> end 730
