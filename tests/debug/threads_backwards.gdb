# Thread switches, forwards and backwards; a thread's creation is passed backwards.
# program: threads.c
break finished
continue
#> Breakpoint 1, finished ()
print counter
#> = 9
watch counter
reverse-continue
#> Old value = 9
#> New value =
#> work
reverse-continue
reverse-continue
reverse-continue
reverse-continue
reverse-continue
#> New value = 0
#> work
delete
tbreak main
reverse-continue
#> main ()
info threads
#> * 1
#> main ()
#> ! work (
continue
#> exited with status 0
print counter
#> = 9
