# Where no prompt comes between, what was refused is told at the next stop, as what it is: of before that.
# program: data.c
tbreak scope
continue
python
try: gdb.execute("set var global = 5")
except gdb.error: pass
gdb.execute("next")
end
#> was to be written before the program went on was refused
#> The recording cannot be changed
print global
#> = 1
