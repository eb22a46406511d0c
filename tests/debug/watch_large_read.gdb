# Reads of a structure of 200 bytes, and all accesses to an array that shares its page with other objects.
# program: large.c
break begin
continue
rwatch record
continue
#> Hardware read watchpoint 2: record
#> seen
print seen
#> = 0
info symbol $pc
#> main
delete 2
awatch record
reverse-continue
#> Hardware access (read/write) watchpoint 3: record
reverse-continue
#> Hardware access (read/write) watchpoint 3: record
#> Old value
continue
#> Hardware access (read/write) watchpoint 3: record
