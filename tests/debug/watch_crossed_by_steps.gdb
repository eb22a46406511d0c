# Steps back over a write to what is watched tell of it; the same write is told of again when it comes the next time.
# program: long.c
tbreak spin
continue
watch phase
continue
#> New value = 2
stepi 10
reverse-stepi 30
#> Old value = 2
#> New value = 1
print phase
#> = 1
continue
#> Old value = 1
#> New value = 2
continue
#> New value = 3
reverse-continue
#> Old value = 3
reverse-continue
#> Old value = 2
