# run begins anew, and goes to events and checkpoints.
# program: calls.c
break one
continue 3
continue
print number
run
x/i $pc
#> mov    %rsp,%rdi
continue
#> one (number=1)
checkpoint
continue
#> one (number=2)
run 20
print $_bis_event
#> = 20
run c1
print number
#> = 1
reverse-continue
#> No more
