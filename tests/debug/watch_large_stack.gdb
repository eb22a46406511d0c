# An array of 200 bytes on the stack, whose page is written to by all that happens around.
# program: large.c
break by_stack
continue
watch local
continue
#> Hardware watchpoint 2: local
continue 48
#> Hardware watchpoint 2: local
#> New value = {0, 1, 2,
print i
#> = 49
continue
#> Hardware watchpoint 2: local
#> 1225}
print sum
#> = 1225
reverse-continue
#> Hardware watchpoint 2: local
#> 48, 49}
reverse-continue
#> Hardware watchpoint 2: local
print i
#> = 49
