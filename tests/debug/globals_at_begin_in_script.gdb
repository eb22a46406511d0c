# As globals_at_begin, in a script, where no prompt comes between the commands.
# program: data.c
# The debug information of the dynamic linker, where it is installed, makes the difference.
set debug-file-directory /usr/lib/debug
nosharedlibrary
sharedlibrary
tbreak main
continue
#> main (
python
gdb.execute("reverse-continue")
gdb.execute("print untouched")
gdb.execute("watch global")
end
#> No more reverse-execution history
#> = 7
#> Hardware watchpoint 2: global
continue
#> Old value = 0
