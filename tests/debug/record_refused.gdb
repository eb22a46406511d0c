# Who is used to gdb's own `record` is told that it is not needed here; gdb would begin a recording on top of this one, and be
# stuck as soon as it is to go back.
# program: basics.c
tbreak main
continue
#> main ()
record
#> This is recorded already
record full
#> This is recorded already
target record-full
#> This is recorded already
next
reverse-next
#> for (int i = 0
info record
#> This is a recording: `info recording` says more
