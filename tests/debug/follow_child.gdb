# gdb is asked to follow children: at a fork, the session goes on with the child, which is another recorded process.
# program: forks.c
set follow-fork-mode child
catch fork
continue
#> Catchpoint 1 (forked process
tbreak in_child
continue
#> in_child ()
print shared_name
#> = 1
next
print shared_name
#> = 2
continue
#> exited with status 4
reverse-continue
#> No more reverse-execution history
