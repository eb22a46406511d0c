# What the program writes goes to the file of --tty, as far as it was replayed.
# program: large.c
# replay: --tty written
break begin
continue
shell cat written
#> ! by a call
continue
#> exited with status 0
shell cat written
#> 1225 by a call 1
