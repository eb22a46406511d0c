# A breakpoint in a recursive function, backwards, finish, and reverse-finish of the frame from which gdb finds it.
# program: recursion.c
# modes: hooks no-hooks software
break factorial
break recursion.c:13
continue
#> factorial (n=5)
continue 5
#> Breakpoint 2, factorial (n=2)
#> return n * rest;
reverse-continue
#> Breakpoint 1, factorial (n=1)
reverse-continue
#> Breakpoint 1, factorial (n=2)
reverse-continue
#> Breakpoint 1, factorial (n=3)
delete
finish
#> Value returned is $1 = 6
finish
#> Value returned is $2 = 24
print n
#> = 5
reverse-next
print n
#> = 5
reverse-step
print n
#> ~ = [45]
