# A fork is caught; the session stays with the parent.
# program: forks.c
# modes: hooks no-hooks software
catch fork
continue
#> ~ `process [0-9]+` goes to that one
#> Catchpoint 1 (forked process
info breakpoints
#> fork, process
tbreak in_parent
continue
#> in_parent ()
reverse-continue
#> Catchpoint 1 (forked process
reverse-continue
#> No more reverse-execution history
disable 1
tbreak in_parent
continue
#> ! Catchpoint
#> in_parent ()
print shared_name
#> = 1
