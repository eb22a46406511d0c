# The last store of a process that was killed in a call that costs no stop, or behind one: it is there at
# the end, as another process saw it, and is found backwards.
# program: killed_in_hook.c
# replay: -p {fork}
continue
#> it exited with status 0
print seen >= 1000 && seen == before
#> = 1
print before - behind <= 1
#> = 1
set $last = before
watch before
reverse-continue
#> Hardware watchpoint
print before == $last - 1
#> = 1
continue
#> Hardware watchpoint
print before == $last
#> = 1
