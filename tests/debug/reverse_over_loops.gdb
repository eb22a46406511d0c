# Steps and lines back over calls that compute for long, to the entry of a function and out of it.
# program: loops.c
# modes: hooks no-hooks software
break set_word if value == 20
continue
#> set_word (value=20)
delete
reverse-stepi 8
reverse-finish
# gdb 13 stops at the begin of its line first; 16 and 18 go to the line before.
if $_gdb_major < 16
reverse-next
end
reverse-next
reverse-next
print i
#> = 20
tbreak set_word
continue
#> set_word (value=
reverse-stepi 12
backtrace
#> main ()
