# A breakpoint at the instruction in front of which a watchpoint has stopped the program: the next stop there is a round later, and so
# is the place that it has.
# program: rounds.c
tbreak one_round
continue
watch rounds
continue
#> New value = 1
delete
break *$pc
continue
print number
#> = 2
python place = gdb.convenience_variable("_bis_place").string()
set $there = $rsp
seek start
python gdb.execute("seek " + place)
print number
#> = 2
print rounds
#> = 2
print $rsp == $there
#> = 1
reverse-stepi
stepi
print number
#> = 2
reverse-continue
print number
#> = 1
