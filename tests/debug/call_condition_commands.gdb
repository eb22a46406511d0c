# A breakpoint whose condition calls a function, with commands that go on: the copy in which that ran is gone then.
# program: callee.c
handle SIGUSR1 nostop noprint
break add if half(a) < 100
commands
silent
printf "add of %d, after %d calls\n", a, calls
continue
end
continue
#> add of 1, after 0 calls
#> add of 2, after 1 calls
#> add of 3, after 2 calls
#> add of 1, after 3 calls
#> add of 20, after 4 calls
#> add of 7, after 5 calls
#> exited with status 0
