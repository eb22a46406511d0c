# rwatch stops at reads, awatch at both.
# program: data.c
tbreak main
continue
rwatch untouched
#> Hardware read watchpoint 2: untouched
continue
#> Hardware read watchpoint 2: untouched
#> Value = 7
#> look ()
delete
awatch global
#> Hardware access (read/write) watchpoint 3: global
continue
#> Hardware access (read/write) watchpoint 3: global
#> Old value = 1
#> New value = 8
