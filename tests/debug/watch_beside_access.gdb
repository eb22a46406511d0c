# A watchpoint on a whole structure, beside one for accesses of its first member: what is written elsewhere in it is no access of that.
# program: beside.c
tbreak main
continue
awatch record.first
watch record
continue
#> access (read/write) watchpoint 2: record.first
continue
#> ! access
#> ~ atchpoint 3: record
continue
#> ! access
#> ~ atchpoint 3: record
reverse-continue
#> ! access
#> ~ atchpoint 3: record
