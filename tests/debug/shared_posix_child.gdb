# The same, in the program that was executed: the parent is replayed beside it, from its own exec.
# program: shared_named.c
# args: parent
# replay: -p {fork}
break answer
continue
#> answer ()
print *word
#> = 7
watch *word
continue
#> ! has changed it
#> Old value = 7
#> New value = 8
continue
#> has changed it
#> New value = 9
reverse-continue
#> has changed it
#> Old value = 9
#> New value = 8
reverse-continue
#> ! has changed it
#> Old value = 8
#> New value = 7
reverse-continue
#> answer ()
delete
reverse-continue
#> No more reverse-execution history
