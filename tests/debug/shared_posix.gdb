# Memory by its name (shm_open), mapped by a process that has executed another program.
# program: shared_named.c
# args: parent
break told
continue
#> told (value=7)
watch *word
continue
#> has changed it
#> Old value = 7
#> New value = 8
continue
#> told (value=8)
reverse-continue
#> Old value = 8
#> New value = 7
delete
reverse-continue
#> No more reverse-execution history
