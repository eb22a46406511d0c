# A long computation without events is searched twice: places in it keep their names, and what is found is the same.
# program: long.c
# args: 700000000
break long.c:20
continue
#> phase = 3
set $end = $_bis_place
watch -location phase
reverse-continue
#> New value = 1
set $write = $_bis_place
print spins
#> = 1000000
continue
#> New value = 2
continue
#> phase = 3
print spins
#> = 701000000
reverse-continue
#> New value = 1
print $_streq($_bis_place, $write)
#> = 1
delete
break long.c:11 if spins == 300000000
python gdb.execute("seek " + gdb.convenience_variable("end").string())
#> phase = 3
reverse-continue
#> Breakpoint
print spins
#> = 300000000
reverse-continue
#> No more reverse-execution history
python gdb.execute("seek " + gdb.convenience_variable("end").string())
#> phase = 3
print spins
#> = 701000000
