# ^C stops a long computation; a place can be named there, and come back to.
# program: long.c
# args: 2000000000
tbreak main
continue
shell (sleep 0.7; kill -INT $PPID) &
continue
#> SIGINT
print phase == 2 || phase == 3
#> = 1
print $_bis_place
set $s = spins
python place = gdb.convenience_variable("_bis_place").string()
reverse-stepi
stepi
print spins == $s
#> = 1
tbreak main
reverse-continue
#> main (
python gdb.execute("seek " + place)
print spins == $s
#> = 1
