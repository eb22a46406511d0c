# Going back to a write where a condition held, over many where it did not: near the end first, then farther and farther.
# program: many_writes.c
break printf
continue
print sum
#> = 8002000
delete
watch-if sum sum%1000==528
reverse-continue
#> Hardware watchpoint
print sum + more
#> = 7870528
delete
watch-if sum sum<=2000000
reverse-continue
print sum + more
#> = 1999000
delete
watch-if sum sum==55
reverse-continue
print sum
#> = 45
delete
watch-if sum sum==4242424242
reverse-continue
#> No more reverse-execution history
