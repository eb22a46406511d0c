# A child by vfork that executes another program: the parent goes on behind it.
# program: forks.c
# other: other.c
# args: vfork {other}
tbreak in_parent
continue
#> in_parent ()
print shared_name
#> = 1
continue
#> exited with status 0
reverse-continue
#> No more reverse-execution history
