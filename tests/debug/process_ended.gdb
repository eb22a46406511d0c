# Late in a process: another one is entered where it stood at that moment, and its begin leads to the one that forked it.
# program: forks.c
seek end
process {fork}
#> Program stopped
continue
#> exited with status 4
break in_child
reverse-continue
#> in_child ()
print shared_name
#> = 1
watch shared_name
continue
#> New value = 2
delete
reverse-continue
#> begins here
#> No more reverse-execution history
process {first}
#> Program stopped
backtrace
#> main (
print shared_name
#> = 1
