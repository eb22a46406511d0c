# The last write of many, and the first, of a value that a loop changes for long.
# program: long.c
tbreak long.c:21
continue
watch spins
reverse-continue
#> Old value = 101000000
#> New value = 100999999
reverse-continue
#> Old value = 100999999
#> New value = 100999998
delete
tbreak long.c:21
continue
watch phase
reverse-continue
#> Old value = 3
#> New value = 2
reverse-continue
#> Old value = 2
#> New value = 1
reverse-continue
#> Old value = 1
#> New value = 0
