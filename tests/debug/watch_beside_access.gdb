# A watchpoint on a whole structure, beside one for accesses of its first member: what is written elsewhere in it is no access of that.
# program: beside.c
awatch record.first
watch record
continue
#> access (read/write) watchpoint 1: record.first
continue
#> ~ atchpoint 2: record
#> ! watchpoint 1
continue
#> ~ atchpoint 2: record
#> ! watchpoint 1
reverse-continue
#> ~ atchpoint 2: record
#> ! watchpoint 1
