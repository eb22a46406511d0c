# One instruction back, and another one, from where a thread was stopped in a loop of a few bytes: the search for that
# place is in the way of whatever would count the rounds, and the second step begins in the middle of them. The place
# itself becomes an arrival, to which no search leads. With fewer rounds, a thread could come to its milestones before
# it is stopped once.
# program: rare_in_tight_loop.c
# cflags: -O0 -DROUNDS=0xa000000
break *(char *) &milestone
continue
continue
continue
python gdb.execute("seek " + gdb.execute("when", to_string=True).split()[-1])
#> stopped.
set $here = $pc
reverse-stepi
set $before = $pc
reverse-stepi
reverse-stepi
stepi
stepi
print $pc == $before
#> = 1
stepi
print $pc == $here
#> = 1
