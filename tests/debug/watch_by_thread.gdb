# Another thread changes what is watched.
# program: threads.c
tbreak main
continue
watch by_second
continue
#> Hardware watchpoint 2: by_second
#> Old value = 0
#> New value = 22
#> work
print number
#> = 2
info threads
#> ~ \* [23] .*work
reverse-continue
#> Hardware watchpoint 2: by_second
#> Old value = 22
#> New value = 0
print number
#> = 2
