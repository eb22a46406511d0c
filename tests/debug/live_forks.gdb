# A program that runs has a child, which runs by itself: breakpoints are for the program alone, and the child
# does not meet them.
# program: live_forks.c
# modes: live
break both
continue
#> both (who=0)
next
#> fork
next
#> if (child == 0)
next
#> status = 0
next
#> waitpid
next
#> printf
next
#> child 5
continue
#> both (who=2)
reverse-continue
#> both (who=0)
delete
continue
#> ! child
#> end
