# Places that are kept belong to their process; so do those that are written down.
# program: shared_page.c
tbreak by_parent
continue
#> by_parent (i=0)
checkpoint
#> Checkpoint 1
# (The child may have been at its first round already when the parent comes to its own.)
process {fork}
tbreak by_child
continue
#> by_child (i=
checkpoint
#> Checkpoint 2
set $of_child = $_bis_place
restart 1
#> by_parent (i=0)
when-tid
#> Current tid: {first}
python gdb.execute("seek " + gdb.convenience_variable("of_child").string())
#> is not one of process {first}, but of process {fork}
when-tid
#> Current tid: {first}
restart 2
#> by_child (i=
when-tid
#> Current tid: {fork}
run
#> Program stopped
when-tid
#> Current tid: {fork}
process
#> ~ \* .*forked by
