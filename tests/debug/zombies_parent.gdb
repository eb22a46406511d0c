# Children that were killed or have left, seen by who waits for them.
# program: zombies.c
break reaped
continue
#> Breakpoint 1, reaped
print status & 0x7f
#> = 9
print left
#> = 2
continue
#> Breakpoint 1, reaped
print (status >> 8) & 0xff
#> = 5
watch left
continue
#> Old value = 1
#> New value = 0
reverse-continue
#> Hardware watchpoint 2: left
#> Old value = 0
#> New value = 1
reverse-continue
#> Breakpoint 1, reaped
reverse-continue
#> Hardware watchpoint 2: left
#> New value = 2
delete
continue
#> killed by 9, exited with 5, 0 left
#> exited with status 0
