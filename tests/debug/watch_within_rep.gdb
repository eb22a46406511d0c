# A watchpoint stops a task in the middle of an instruction that repeats itself. The places in front of it, and those that are gone
# to from there, have names that lead back to them.
# program: repeated.c
tbreak main
continue
watch words[5]
continue
#> Old value = 0
#> New value = 1
print words[6]
#> = 0
python at = int(gdb.parse_and_eval("$rcx"))
reverse-stepi
print words[5]
#> = 0
python there = gdb.convenience_variable("_bis_place").string()
continue
#> New value = 1
reverse-continue
#> Old value = 1
#> New value = 0
delete
awatch words[2]
reverse-continue
#> words[2]
python gdb.execute("seek " + there)
python print("rcx", int(gdb.parse_and_eval("$rcx")) - at)
#> rcx 1
print words[4]
#> = 1
print words[5]
#> = 0
# Each round is an arrival.
delete
break filling if $rcx == 60
continue
print $rcx
#> = 60
