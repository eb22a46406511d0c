# Backwards over longjmp.
# program: jump.c
# modes: hooks no-hooks software
break jump.c:25
continue
#> printf
print rounds
#> = 3
watch rounds
reverse-continue
#> Hardware watchpoint 2: rounds
#> Old value = 3
#> New value = 2
backtrace
#> deepest (value=3)
#> middle (value=3)
#> main ()
reverse-continue
#> Old value = 2
#> New value = 1
# gdb 13 stops at the begin of its line first; 16 and 18 leave the function.
if $_gdb_major < 16
reverse-next
else
frame
end
#> rounds = value;
next
#> Old value = 1
#> New value = 2
#> longjmp(saved, value);
delete
reverse-finish
#> middle (value=2)
#> deepest(value);
