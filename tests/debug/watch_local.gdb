# A watchpoint on a local variable ends with its scope.
# program: data.c
break scope
continue
#> scope (n=4)
watch local
#> Hardware watchpoint 2: local
continue
#> New value = 4
continue
#> Old value = 4
#> New value = 5
continue
#> Old value = 5
#> New value = 10
continue
#> Watchpoint 2 deleted because the program has left the block
#> main ()
info watchpoints
#> No watchpoints
