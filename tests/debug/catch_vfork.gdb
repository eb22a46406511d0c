# A vfork is caught; breakpoints of the parent are there again behind it, whichever way the session goes.
# program: forks.c
# other: other.c
# args: vfork {other}
catch vfork
continue
#> which has its memory until it executes a program
#> Catchpoint 1 (vforked process
tbreak in_parent
continue
#> in_parent ()
print shared_name
#> = 1
reverse-continue
#> Catchpoint 1 (vforked process
tbreak main
reverse-continue
#> main (
